#include "client/local_cluster.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/child_process.h"
#include "client/files.h"
#include "client/human_format.h"
#include "common/base/status_macros.h"
#include "common/rpc/host_port.h"

namespace sangam {
namespace {

constexpr absl::Duration kPollPeriod = absl::Milliseconds(10);
constexpr absl::Duration kHurryPeriod = absl::Milliseconds(50);
constexpr size_t kMaxReadyFileBytes = 4096;

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
}

bool ContainsWord(absl::string_view text, absl::string_view word) {
  for (size_t at = text.find(word); at != absl::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !IsWordCharacter(text[at - 1]);
    const bool ends = end == text.size() || !IsWordCharacter(text[end]);
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

absl::Status LocalCluster::StartDaemon(const std::string& name, const std::string& program,
                                       std::vector<std::string> arguments) {
  Daemon daemon;
  daemon.name = name;
  daemon.log = absl::StrCat(options_.log_directory, "/", name, ".log");
  daemon.ready_file = absl::StrCat(options_.log_directory, "/", name, ".ready");
  // Of an earlier run that was killed.
  unlink(daemon.ready_file.c_str());
  arguments.push_back(absl::StrCat("--name=", name));
  arguments.push_back(absl::StrCat("--ready_file=", daemon.ready_file));
  // They are this machine's alone, whoever the user is to other clusters.
  arguments.insert(arguments.end(), {"--tls_cert=", "--tls_key=", "--tls_ca="});
  ASSIGN_OR_RETURN(daemon.process, ChildProcess::Start(program, arguments, daemon.log));
  daemons_.push_back(std::move(daemon));
  return absl::OkStatus();
}

absl::Status LocalCluster::Start() {
  const absl::Time until = absl::Now() + options_.start_deadline;
  const std::string data_root = absl::StrCat("--data_root=", options_.data_root);
  std::vector<std::string> flags = {"--listen=127.0.0.1:0", data_root};
  if (!options_.state_dir.empty())
    flags.push_back(absl::StrCat("--state_dir=", options_.state_dir));
  RETURN_IF_ERROR(StartDaemon("server-0", options_.server_binary, flags));
  ASSIGN_OR_RETURN(coordinator_, AwaitReady(0, until));
  RETURN_IF_ERROR(ParseTarget(coordinator_).status(), "ready file of server-0");

  const std::string coordinator = absl::StrCat("--coordinator=", coordinator_);
  for (uint64_t i = 1; i < options_.servers; ++i) {
    RETURN_IF_ERROR(StartDaemon(absl::StrCat("server-", i), options_.server_binary,
                                {"--listen=127.0.0.1:0", coordinator}));
  }
  for (uint64_t i = 0; i < options_.workers; ++i) {
    RETURN_IF_ERROR(
        StartDaemon(absl::StrCat("worker-", i), options_.worker_binary,
                    {coordinator, data_root, absl::StrCat("--threads=", options_.threads),
                     absl::StrCat("--backend=", options_.backend),
                     absl::StrCat("--memory_limit=", options_.memory_limit)}));
  }
  for (size_t i = 1; i < daemons_.size(); ++i) {
    RETURN_IF_ERROR(AwaitReady(i, until).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LocalCluster::AwaitReady(size_t index, absl::Time until) {
  const std::string ready_file = daemons_[index].ready_file;
  while (true) {
    // The file is looked for before the process: a daemon that writes it and ends was ready.
    const absl::StatusOr<std::string> text = ReadFile(ready_file, kMaxReadyFileBytes);
    if (text.ok() && !text->empty()) {
      unlink(ready_file.c_str());
      return std::string(absl::StripAsciiWhitespace(*text));
    }
    RETURN_IF_ERROR(Check());
    RETURN_IF_ERROR(options_.check());
    if (absl::Now() >= until) {
      failed_log_ = daemons_[index].log;
      return absl::DeadlineExceededError(absl::StrCat(daemons_[index].name, " is not ready after ",
                                                      HumanDuration(options_.start_deadline),
                                                      " (log: ", failed_log_, ")"));
    }
    absl::SleepFor(kPollPeriod);
  }
}

absl::Status LocalCluster::CheckDaemon(Daemon& daemon) {
  if (daemon.process->Running()) return absl::OkStatus();
  failed_log_ = daemon.log;
  return absl::UnavailableError(
      absl::StrCat(daemon.name, " ", daemon.process->ending(), " (log: ", daemon.log, ")"));
}

absl::Status LocalCluster::Check() {
  for (Daemon& daemon : daemons_) RETURN_IF_ERROR(CheckDaemon(daemon));
  return absl::OkStatus();
}

void LocalCluster::StopRange(size_t begin, size_t end, std::vector<std::string>* killed) {
  const absl::Time until = absl::Now() + options_.stop_deadline;
  for (size_t i = begin; i < end; ++i) daemons_[i].process->Signal(SIGTERM);
  for (size_t i = begin; i < end; ++i) {
    ChildProcess& process = *daemons_[i].process;
    while (process.Running() && absl::Now() < until && !options_.hurry()) {
      process.WaitFor(kHurryPeriod);
    }
    if (!process.Running()) continue;
    killed->push_back(daemons_[i].name);
    process.Kill();
  }
}

std::vector<std::string> LocalCluster::Stop() {
  std::vector<std::string> killed;
  // Workers say goodbye to the coordinator, so it ends last.
  const size_t servers = std::min<size_t>(daemons_.size(), options_.servers);
  StopRange(servers, daemons_.size(), &killed);
  if (servers > 1) StopRange(1, servers, &killed);
  StopRange(0, std::min<size_t>(servers, 1), &killed);
  for (const Daemon& daemon : daemons_) unlink(daemon.ready_file.c_str());
  daemons_.clear();
  return killed;
}

std::string LocalCluster::LogNamedIn(absl::string_view text) const {
  for (const Daemon& daemon : daemons_) {
    if (ContainsWord(text, daemon.name)) return daemon.log;
  }
  return "";
}

}  // namespace sangam
