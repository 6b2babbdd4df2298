#include "client/commands/cluster.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cluster_size.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_source.h"
#include "client/commands/job_tables.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"
#include "nlohmann/json.hpp"
#include "proto/admin_service.pb.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

class ClusterCommand : public Command {
 public:
  CommandText text() const override {
    return {"cluster",
            "[drain|undrain|size] [NAME|FILE]",
            "List servers and workers, drain one, or size them.",
            "SILENT is the time since a daemon's last sign of life, GFLOP/S the speed of a\n"
            "matrix product on one thread of a worker. Workers have an address where others\n"
            "of a pipeline reach them. Of GPUs a second table shows what they are: DRIVER is\n"
            "the newest CUDA that the driver supports, RUNTIME the one that the worker was\n"
            "built with.\n\n"
            "drain takes the daemon NAME out of use: it gets no new jobs, and those that it\n"
            "has stop after a step, are written down and go on on other daemons. It goes on\n"
            "running; once it holds no jobs it can be stopped without anybody noticing. A\n"
            "daemon that is stopped with SIGTERM does the same by itself. undrain takes it\n"
            "back into use.\n\n"
            "size reads a job as 'sangam submit' does and prints the memory and the disk that\n"
            "its daemons need. It asks no coordinator: use it before there is a cluster.\n",
            {"sangam cluster", "sangam cluster --coordinator=parameters.example.org:7070",
             "sangam cluster drain worker-3", "sangam cluster undrain worker-3",
             "sangam cluster size job.textproto --set resources.workers=4"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    flags->AddString({"role", "ROLE", "Whom to drain when a server and a worker have the name."},
                     &role_);
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
    source_.AddFlags(flags);
    flags->AddCount({"threads", "N", "size: compute threads of each worker"}, &threads_, 1, 4096);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    if (!arguments.empty()) {
      return arguments[0] == "size" ? Size(arguments, environment) : Drain(arguments, environment);
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    ASSIGN_OR_RETURN(const v1::Cluster cluster, client->GetCluster());
    if (connection_.json()) {
      ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(cluster));
      environment.console->Out(absl::StrCat(json, "\n"));
    } else {
      environment.console->Out(FormatCluster(cluster));
    }
    return ExitCode::kSuccess;
  }

 private:
  absl::StatusOr<ExitCode> Size(const std::vector<std::string>& arguments,
                                const Environment& environment) const {
    if (arguments.size() < 2) return UsageError("size: FILE is missing");
    ASSIGN_OR_RETURN(const v1::JobSpec spec, source_.Read(arguments[1]));
    ASSIGN_OR_RETURN(const ClusterSize size, SizeOf(spec, static_cast<uint32_t>(threads_)));
    if (connection_.json()) {
      const auto daemon = [](const DaemonSize& d) {
        return nlohmann::ordered_json{{"count", d.count},
                                      {"job_bytes", d.job},
                                      {"waiting_gradient_bytes", d.waiting},
                                      {"memory_bytes", d.memory()}};
      };
      const nlohmann::ordered_json json = {
          {"parameters", size.parameters},
          {"strategy", v1::Strategy_Name(size.strategy.strategy())},
          {"server", daemon(size.servers)},
          {"worker", daemon(size.workers)},
          {"checkpoint_bytes", size.checkpoint},
          {"state_dir_bytes", size.disk}};
      environment.console->Out(absl::StrCat(json.dump(2), "\n"));
    } else {
      environment.console->Out(FormatClusterSize(size));
    }
    return ExitCode::kSuccess;
  }

  absl::StatusOr<ExitCode> Drain(const std::vector<std::string>& arguments,
                                 const Environment& environment) {
    if (arguments[0] != "drain" && arguments[0] != "undrain") {
      return UsageError(
          absl::StrCat("found '", arguments[0], "', expected drain, undrain or size"));
    }
    if (arguments.size() < 2) return UsageError("NAME is missing");
    v1::DrainDaemonRequest request;
    request.set_role(role_);
    request.set_name(arguments[1]);
    request.set_undrain(arguments[0] == "undrain");
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    ASSIGN_OR_RETURN(const v1::DrainDaemonResponse response, client->DrainDaemon(request));
    if (connection_.json()) {
      ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(response));
      environment.console->Out(absl::StrCat(json, "\n"));
      return ExitCode::kSuccess;
    }
    std::string text = absl::StrCat(response.role(), " ", arguments[1],
                                    request.undrain() ? " is in use again" : " drains");
    if (!request.undrain() && response.job_size() > 0) {
      absl::StrAppend(&text, "; jobs that it still has: ", absl::StrJoin(response.job(), ", "));
    }
    environment.console->Out(absl::StrCat(text, "\n"));
    return ExitCode::kSuccess;
  }

  Connection connection_;
  JobSource source_;
  uint64_t threads_ = 1;
  std::string role_;
};

}  // namespace

std::unique_ptr<Command> MakeClusterCommand() { return std::make_unique<ClusterCommand>(); }

}  // namespace sangam
