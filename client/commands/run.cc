#include "client/commands/run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/commands/job_source.h"
#include "client/commands/local_run.h"
#include "client/commands/run_directory.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

constexpr uint64_t kMaxDaemons = 1000;
constexpr uint64_t kMaxThreads = 1024;

// The path of a daemon's program: as the flag says, else where a build or an installation puts it.
absl::StatusOr<std::string> FindProgram(const std::string& flag_value, const std::string& directory,
                                        const std::string& part) {
  const std::string name = absl::StrCat("sangam-", part);
  std::vector<std::string> places = {absl::StrCat(directory, "/../", part, "/", name),
                                     absl::StrCat(directory, "/", name)};
  if (!flag_value.empty()) places = {flag_value};
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  return absl::NotFoundError(absl::StrCat("no program ", absl::StrJoin(places, " or "),
                                          "; build it, or name it with --", part, "_binary=PATH"));
}

absl::Status CheckDataRoot(const std::string& data_root) {
  if (data_root.empty()) {
    return UsageError("--data_root=DIR is required: the directory that holds the job's data files");
  }
  struct stat facts {};
  if (stat(data_root.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    return absl::NotFoundError(absl::StrCat("--data_root: no directory ", data_root));
  }
  return absl::OkStatus();
}

class RunCommand : public Command {
 public:
  CommandText text() const override {
    return {"run",
            "FILE",
            "Run a job on this machine, with daemons of its own.",
            "Starts sangam-server and sangam-worker processes on the loopback interface,\n"
            "submits the job of FILE (as 'sangam submit' reads it), shows the progress on the\n"
            "error stream, and stops the processes when the job has ended, on Ctrl-C, or when\n"
            "one of them fails. The result does not depend on how many there are.\n\n"
            "DIR then holds\n"
            "  model.safetensors  the trained weights, when the job succeeded\n"
            "  metrics.jsonl      a JSON object a line for each step and evaluation\n"
            "  job.json           the job as it ended\n"
            "  logs/              of the daemons; kept when the job failed, or by --keep_logs\n"
            "  state/             checkpoints, when the job asks for them\n"
            "and the output is one line:\n"
            "  job NAME SUCCEEDED steps=N test_accuracy=0.8912 samples_per_second=12345\n",
            {"sangam run deploy/jobs/fashion_mnist_mlp.textproto --workers=2 \\\n"
             "      --data_root=/usr/share/datasets/fashion-mnist --out=out",
             "sangam run job.textproto --data_root=data --out=out --set epochs=1 --overwrite"}};
  }

  void AddFlags(const Environment& /*environment*/, FlagSet* flags) override {
    flags->AddString({"out", "DIR", "Where the results go; required. Made if needed."}, &out_);
    flags->AddString(
        {"data_root", "DIR",
         "The directory that holds the job's data files; required but for synthetic data."},
        &cluster_.data_root);
    flags->AddOptionalCount({"workers", "N", "Workers. Default: as the job file asks."}, &workers_,
                            1, kMaxDaemons);
    flags->AddOptionalCount({"servers", "N", "Servers. Default: as the job file asks."}, &servers_,
                            1, kMaxDaemons);
    flags->AddOptionalCount({"threads", "N",
                             "Threads that compute in each worker. Default: the processors divided "
                             "by the workers; with another backend than cpu, 1."},
                            &threads_, 1, kMaxThreads);
    source_.AddFlags(flags);
    flags->AddString({"backend", "NAME", "What the workers compute with: cpu or cuda."},
                     &cluster_.backend);
    flags->AddBytes({"memory_limit", "BYTES",
                     "Memory that the job may use on each worker. Default: all there is."},
                    &cluster_.memory_limit);
    flags->AddSwitch({"overwrite", "", "Replace an earlier run in DIR."}, &overwrite_);
    flags->AddSwitch({"keep_logs", "", "Keep the daemons' logs also when the job succeeds."},
                     &keep_logs_);
    flags->AddDuration({"start_timeout", "TIME", "How long the daemons may take to become ready."},
                       &cluster_.start_deadline);
    flags->AddDuration({"stall_timeout", "TIME", "A job without any event for so long has failed."},
                       &stall_timeout_);
    flags->AddString(
        {"server_binary", "PATH", "The program sangam-server. Default: beside this program."},
        &cluster_.server_binary);
    flags->AddString(
        {"worker_binary", "PATH", "The program sangam-worker. Default: beside this program."},
        &cluster_.worker_binary);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    if (out_.empty()) return UsageError("--out=DIR is required: where the results go");
    LocalRun::Options options;
    ASSIGN_OR_RETURN(options.spec, source_.Read(arguments[0]));
    // Data that is made up comes from nowhere; the daemons want a folder all the same.
    if (options.spec.data().has_synthetic() && cluster_.data_root.empty()) cluster_.data_root = ".";
    RETURN_IF_ERROR(CheckDataRoot(cluster_.data_root));
    v1::ResourcesSpec& resources = *options.spec.mutable_resources();
    // What the job file asks for is bounded by the same limits; zero is left to the coordinator.
    cluster_.workers = workers_.value_or(resources.has_workers() ? resources.workers() : 1);
    cluster_.servers = servers_.value_or(resources.has_servers() ? resources.servers() : 1);
    if (cluster_.workers > kMaxDaemons || cluster_.servers > kMaxDaemons) {
      return absl::InvalidArgumentError(
          absl::StrCat("resources: found ", cluster_.workers, " workers and ", cluster_.servers,
                       " servers, at most ", kMaxDaemons, " of each run on one machine"));
    }
    resources.set_workers(static_cast<uint32_t>(cluster_.workers));
    resources.set_servers(static_cast<uint32_t>(cluster_.servers));
    const uint64_t processors = cluster_.backend == "cpu" ? std::thread::hardware_concurrency() : 1;
    cluster_.threads = threads_.value_or(
        std::max<uint64_t>(1, processors / std::max<uint64_t>(1, cluster_.workers)));
    const std::string& beside = environment.program_directory;
    ASSIGN_OR_RETURN(cluster_.server_binary, FindProgram(cluster_.server_binary, beside, "server"));
    ASSIGN_OR_RETURN(cluster_.worker_binary, FindProgram(cluster_.worker_binary, beside, "worker"));
    ASSIGN_OR_RETURN(const std::unique_ptr<RunDirectory> directory,
                     RunDirectory::Create(out_, overwrite_));
    options.cluster = cluster_;
    options.stall_timeout = stall_timeout_;
    options.keep_logs = keep_logs_;
    return LocalRun(std::move(options), directory.get(), environment).Run();
  }

 private:
  JobSource source_;
  std::string out_;
  std::optional<uint64_t> workers_;
  std::optional<uint64_t> servers_;
  std::optional<uint64_t> threads_;
  LocalCluster::Options cluster_;
  absl::Duration stall_timeout_ = absl::Minutes(10);
  bool overwrite_ = false;
  bool keep_logs_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeRunCommand() { return std::make_unique<RunCommand>(); }

}  // namespace sangam
