#include "client/commands/describe.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_tables.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

class DescribeCommand : public Command {
 public:
  CommandText text() const override {
    return {"describe",
            "JOB",
            "Show all that is known of a job.",
            "JOB is a job's number, or its name: then the newest job of that name.\n",
            {"sangam describe 12", "sangam describe fashion-mnist-mlp --output=json"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    ASSIGN_OR_RETURN(const v1::Job job, client->Get(arguments[0]));
    if (connection_.json()) {
      ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(job));
      environment.console->Out(absl::StrCat(json, "\n"));
    } else {
      environment.console->Out(FormatJob(job, environment.clock->Wall(), absl::LocalTimeZone()));
    }
    return ExitCode::kSuccess;
  }

 private:
  Connection connection_;
};

}  // namespace

std::unique_ptr<Command> MakeDescribeCommand() { return std::make_unique<DescribeCommand>(); }

}  // namespace sangam
