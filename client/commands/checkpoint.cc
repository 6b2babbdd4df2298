#include "client/commands/checkpoint.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/human_format.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "client/table.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

std::string FormatCheckpoints(const v1::ListCheckpointsResponse& all) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Checkpoint& checkpoint : all.checkpoint()) {
    rows.push_back(
        {absl::StrCat(checkpoint.job(), "/", checkpoint.step()), OneLine(checkpoint.job_name()),
         HumanBytes(checkpoint.bytes()),
         absl::FormatTime("%Y-%m-%d %H:%M:%S", ToTime(checkpoint.time()), absl::LocalTimeZone()),
         OneLine(checkpoint.folder())});
  }
  return FormatTable({{"CHECKPOINT"}, {"NAME"}, {"SIZE", true}, {"TIME"}, {"FOLDER"}}, rows);
}

class CheckpointCommand : public Command {
 public:
  CommandText text() const override {
    return {"checkpoint",
            "list|verify [JOB[/STEP]]",
            "List checkpoints, or read one from end to end.",
            "`list` shows the complete checkpoints of one job, or of all, also of jobs that\n"
            "are forgotten. `verify` reads a checkpoint (of a JOB alone the newest) and\n"
            "compares every checksum; one that is damaged is named with file, offset, found\n"
            "and expected, and the exit code is 65.\n",
            {"sangam checkpoint list", "sangam checkpoint list mnist",
             "sangam checkpoint verify 12/400"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    const std::string which = arguments.size() > 1 ? arguments[1] : "";
    if (arguments[0] != "list" && arguments[0] != "verify") {
      return UsageError(absl::StrCat("found '", arguments[0], "', expected list or verify"));
    }
    if (arguments[0] == "verify" && which.empty()) return UsageError("JOB[/STEP] is missing");
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    if (arguments[0] == "verify") {
      ASSIGN_OR_RETURN(const v1::Checkpoint found, client->VerifyCheckpoint(which));
      return Show(found,
                  absl::StrCat("checkpoint ", found.job(), "/", found.step(), " is good: ",
                               HumanBytes(found.bytes()), " in ", OneLine(found.folder()), "\n"),
                  environment);
    }
    ASSIGN_OR_RETURN(const v1::ListCheckpointsResponse all, client->ListCheckpoints(which));
    return Show(all, FormatCheckpoints(all), environment);
  }

 private:
  template <typename Message>
  absl::StatusOr<ExitCode> Show(const Message& message, const std::string& table,
                                const Environment& environment) const {
    if (connection_.json()) {
      ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(message));
      environment.console->Out(absl::StrCat(json, "\n"));
    } else {
      environment.console->Out(table);
    }
    return ExitCode::kSuccess;
  }

  Connection connection_;
};

}  // namespace

std::unique_ptr<Command> MakeCheckpointCommand() { return std::make_unique<CheckpointCommand>(); }

}  // namespace sangam
