#include "client/commands/cancel.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_tables.h"
#include "client/human_format.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

class CancelCommand : public Command {
 public:
  CommandText text() const override {
    return {"cancel",
            "JOB",
            "End a job.",
            "JOB is a job's number, or its name: then the newest job of that name. A job that\n"
            "has ended stays as it is.\n",
            {"sangam cancel 12", "sangam cancel 12 --reason='wrong learning rate'"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    flags->AddString({"reason", "TEXT", "Kept with the job."}, &reason_);
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    ASSIGN_OR_RETURN(const v1::Job job, client->Cancel(arguments[0], reason_));
    if (connection_.json()) {
      ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(job));
      environment.console->Out(absl::StrCat(json, "\n"));
    } else {
      environment.console->Out(absl::StrCat("job ", job.id(), " (", JobTitle(job), ") is ",
                                            StateName(job.state()), "\n"));
    }
    return ExitCode::kSuccess;
  }

 private:
  Connection connection_;
  std::string reason_ = "cancelled by the user";
};

}  // namespace

std::unique_ptr<Command> MakeCancelCommand() { return std::make_unique<CancelCommand>(); }

}  // namespace sangam
