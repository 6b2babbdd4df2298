#include "client/commands/plan.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_source.h"
#include "client/commands/plan_tables.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

class PlanCommand : public Command {
 public:
  CommandText text() const override {
    return {"plan",
            "FILE",
            "Show how a job would run: the strategies, their memory and time.",
            "FILE is a job as 'sangam submit' reads it. The coordinator plans it for the\n"
            "workers that are there and runs nothing. Shown are data parallel, model parallel\n"
            "and hybrid, each at its best, side by side: memory and limit of the worker that\n"
            "needs most, bytes on all links together in one step, predicted time of a step,\n"
            "and the bubble (the part of it in which workers wait for one another); then the\n"
            "one that would be taken, and why, stage by stage.\n\n"
            "The exit code is 0 when the job can run there, else 1.\n",
            {"sangam plan deploy/jobs/gpt_text.textproto --set resources.workers=4",
             "sangam plan job.textproto --set strategy=HYBRID --output=json"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    source_.AddFlags(flags);
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    ASSIGN_OR_RETURN(const v1::JobSpec spec, source_.Read(arguments[0]));
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    ASSIGN_OR_RETURN(const v1::PlanReport report, client->Plan(spec));
    if (connection_.json()) {
      ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(report));
      environment.console->Out(absl::StrCat(json, "\n"));
    } else {
      environment.console->Out(FormatPlan(report));
    }
    return report.feasible() ? ExitCode::kSuccess : ExitCode::kFailure;
  }

 private:
  JobSource source_;
  Connection connection_;
};

}  // namespace

std::unique_ptr<Command> MakePlanCommand() { return std::make_unique<PlanCommand>(); }

}  // namespace sangam
