#include "client/commands/delete.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/human_format.h"
#include "client/job_client.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

class DeleteCommand : public Command {
 public:
  CommandText text() const override {
    return {"delete",
            "JOB",
            "Forget a job that has ended.",
            "JOB is a job's number, or its name: then the newest job of that name. Its\n"
            "weights and checkpoints go too. One that has not ended must be cancelled first.\n",
            {"sangam delete 12"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    connection_.AddFlags(environment, flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    RETURN_IF_ERROR(client->Delete(arguments[0]));
    environment.console->Out(absl::StrCat("job ", OneLine(arguments[0]), " is deleted\n"));
    return ExitCode::kSuccess;
  }

 private:
  Connection connection_;
};

}  // namespace

std::unique_ptr<Command> MakeDeleteCommand() { return std::make_unique<DeleteCommand>(); }

}  // namespace sangam
