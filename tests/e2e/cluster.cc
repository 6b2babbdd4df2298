#include "tests/e2e/cluster.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/testing/idx_files.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {

std::string JobText(const TestJob& job) {
  return absl::StrCat(
      "name: \"", job.name, "\" seed: 7\n", "model {\n  input_shape: [28, 28]\n",
      "  block { name: \"hidden\" layer { flatten {} } layer { linear { out_features: ", job.hidden,
      " } } layer { relu {} }",
      job.dropout > 0 ? absl::StrCat(" layer { dropout { rate: ", job.dropout, " } }") : "",
      " }\n  block { name: \"middle\" layer { linear { out_features: 32 } } layer { gelu {} } }\n",
      "  block { name: \"out\" layer { linear { out_features: 10 } } }\n}\n",
      "loss { softmax_cross_entropy {} }\n",
      "data { idx { train_images: \"train-images\" train_labels: \"train-labels\" ",
      "test_images: \"test-images\" test_labels: \"test-labels\" } mean: 0.5 stddev: 0.25 }\n",
      "optimizer { ", job.optimizer, " }\n", "batch { size: ", job.batch,
      " micro_batches: ", job.micro_batches, " shares: ", job.shares, " }\n",
      "epochs: ", job.epochs, "\nevaluation { ", job.evaluation, " }\n",
      "resources { workers: ", job.workers, " servers: ", job.servers, " }\n", job.more, "\n");
}

void WriteTestData(const std::string& folder, int train_samples, int test_samples) {
  const ImageSet train = MakeImages(1, train_samples, 28, 28, 10);
  const ImageSet test = MakeImages(2, test_samples, 28, 28, 10);
  WriteFile(absl::StrCat(folder, "/train-images"), IdxImages(train));
  WriteFile(absl::StrCat(folder, "/train-labels"), IdxLabels(train));
  WriteFile(absl::StrCat(folder, "/test-images"), IdxImages(test));
  WriteFile(absl::StrCat(folder, "/test-labels"), IdxLabels(test));
}

std::string ServerBinary() { return Runfile("server/sangam-server"); }
std::string WorkerBinary() { return Runfile("worker/sangam-worker"); }
std::string ClientBinary() { return Runfile("client/sangam"); }

void Cluster::Identify(const std::string& role, const std::string& name,
                       std::vector<std::string>* argv) const {
  if (options_.identity == nullptr) return;
  const std::vector<std::string> flags = options_.identity(role, name);
  argv->insert(argv->end(), flags.begin(), flags.end());
}

void Cluster::Start(const std::string& name, std::vector<std::string> argv, std::string* ready) {
  const std::string ready_file = absl::StrCat(options_.folder, "/", name, ".ready");
  argv.push_back(absl::StrCat("--ready_file=", ready_file));
  auto process = Subprocess::Start(argv, absl::StrCat(options_.folder, "/", name, ".log"));
  ASSERT_TRUE(process.ok()) << process.status();
  daemons_.emplace_back(name, *std::move(process));
  const auto content = AwaitFile(ready_file, absl::Seconds(30));
  ASSERT_TRUE(content.ok()) << content.status() << "\n" << daemons_.back().second->Output();
  *ready = std::string(absl::StripTrailingAsciiWhitespace(*content));
}

void Cluster::StartCoordinator(const std::string& role, const std::vector<std::string>& flags) {
  coordinator_argv_ = {ServerBinary(), absl::StrCat("--role=", role),
                       absl::StrCat("--lease=", options_.lease), "--name=coordinator"};
  coordinator_argv_.insert(coordinator_argv_.end(), flags.begin(), flags.end());
  Identify("coordinator", "coordinator", &coordinator_argv_);
  std::vector<std::string> argv = coordinator_argv_;
  argv.push_back("--listen=127.0.0.1:0");
  Start("coordinator", argv, &address_);
}

int Cluster::Remove(const std::string& name, absl::Duration deadline) {
  const auto end = daemon(name).Wait(deadline);
  EXPECT_TRUE(end.ok()) << end.status();
  daemons_.erase(std::find_if(daemons_.begin(), daemons_.end(),
                              [&name](const auto& entry) { return entry.first == name; }));
  std::remove(absl::StrCat(options_.folder, "/", name, ".ready").c_str());
  return end.ok() ? end->exit_code : -1;
}

int Cluster::Stop(const std::string& name, absl::Duration deadline) {
  daemon(name).Signal(SIGTERM);
  return Remove(name, deadline);
}

void Cluster::RestartCoordinator(absl::Duration away, int signal) {
  daemon("coordinator").Signal(signal);
  Remove("coordinator", absl::Seconds(20));
  absl::SleepFor(away);
  std::vector<std::string> argv = coordinator_argv_;
  argv.push_back(absl::StrCat("--listen=", address_));
  Start("coordinator", argv, &address_);
}

void Cluster::StartServer(const std::string& name, const std::vector<std::string>& flags) {
  std::vector<std::string> argv = {ServerBinary(), "--listen=127.0.0.1:0",
                                   absl::StrCat("--coordinator=", address_),
                                   absl::StrCat("--name=", name)};
  argv.insert(argv.end(), flags.begin(), flags.end());
  Identify("server", name, &argv);
  std::string ignored;
  Start(name, argv, &ignored);
}

void Cluster::StartWorker(const std::string& name, const std::vector<std::string>& flags,
                          const std::vector<std::string>& command) {
  std::vector<std::string> argv = command;
  if (argv.empty()) argv.push_back(WorkerBinary());
  argv.insert(argv.end(), {absl::StrCat("--coordinator=", address_), absl::StrCat("--name=", name),
                           "--threads=1"});
  if (!options_.data_root.empty()) {
    argv.push_back(absl::StrCat("--data_root=", options_.data_root));
  }
  argv.insert(argv.end(), flags.begin(), flags.end());
  Identify("worker", name, &argv);
  std::string ignored;
  Start(name, argv, &ignored);
}

Subprocess& Cluster::daemon(const std::string& name) {
  for (auto& [known, process] : daemons_) {
    if (known == name) return *process;
  }
  ADD_FAILURE() << "no daemon " << name;
  std::abort();
}

Finished Cluster::Client(std::vector<std::string> arguments, absl::Duration deadline) {
  arguments.insert(arguments.begin(), ClientBinary());
  arguments.push_back(absl::StrCat("--coordinator=", address_));
  const bool identified =
      std::any_of(arguments.begin(), arguments.end(),
                  [](const std::string& argument) { return absl::StartsWith(argument, "--tls_"); });
  if (!identified) Identify("client", "tester", &arguments);
  return RunCommand(arguments, deadline);
}

void Cluster::Submit(const std::string& job_text) {
  const std::string path = absl::StrCat(options_.folder, "/job", submitted_++, ".textproto");
  WriteFile(path, job_text);
  const Finished submitted = Client({"submit", path, "--wait_for_daemons"}, absl::Seconds(30));
  ASSERT_EQ(submitted.exit_code, 0) << submitted.output;
}

nlohmann::json Cluster::Describe(const std::string& job) {
  const Finished described = Client({"describe", job, "--output=json"}, absl::Seconds(120));
  EXPECT_EQ(described.exit_code, 0) << described.output;
  return nlohmann::json::parse(described.output, nullptr, false);
}

absl::StatusOr<std::string> Cluster::AwaitDescription(const std::string& job,
                                                      const std::string& text,
                                                      absl::Duration deadline) {
  const absl::Time until = absl::Now() + deadline;
  while (true) {
    const Finished described = Client({"describe", job, "--output=json"}, absl::Seconds(30));
    if (absl::StrContains(described.output, text)) return described.output;
    if (absl::Now() >= until) {
      return absl::DeadlineExceededError(
          absl::StrCat("no \"", text, "\" in the description of ", job, ":\n", described.output));
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
}

}  // namespace sangam::testing
