#include "client/commands/cluster.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_tables.h"
#include "client/flags.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

class ClusterCommand : public Command {
 public:
  CommandText text() const override {
    return {"cluster",
            "",
            "List the servers and workers.",
            "SILENT is the time since a daemon's last sign of life, GFLOP/S the speed of a\n"
            "matrix product on one thread of a worker. Workers have an address where others\n"
            "of a pipeline reach them. Of GPUs a second table shows what they are: DRIVER is\n"
            "the newest CUDA that the driver supports, RUNTIME the one that the worker was\n"
            "built with.\n",
            {"sangam cluster", "sangam cluster --coordinator=parameters.example.org:7070"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& /*arguments*/,
                               const Environment& environment) override {
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
  Connection connection_;
};

}  // namespace

std::unique_ptr<Command> MakeClusterCommand() { return std::make_unique<ClusterCommand>(); }

}  // namespace sangam
