#include "client/commands/list.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_tables.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

class ListCommand : public Command {
 public:
  CommandText text() const override {
    return {"list",
            "",
            "List the jobs.",
            "Newest first. ACCURACY is that of the last evaluation on the test set.\n",
            {"sangam list", "sangam list --state=QUEUED,RUNNING",
             "sangam list --limit=0 --output=json"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    flags->AddCount({"limit", "N", "At most this many jobs; 0 means all."}, &limit_, 0);
    flags->AddString({"state", "STATE,...",
                      "Only jobs in one of these states: QUEUED, STARTING, RUNNING, SUCCEEDED, "
                      "FAILED, CANCELLED. Default: all."},
                     &states_);
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& /*arguments*/,
                               const Environment& environment) override {
    ASSIGN_OR_RETURN(const std::vector<v1::JobState> states, States());
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    ASSIGN_OR_RETURN(const v1::ListJobsResponse jobs, client->List(limit_, states));
    if (connection_.json()) {
      ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(jobs));
      environment.console->Out(absl::StrCat(json, "\n"));
    } else {
      environment.console->Out(FormatJobList(jobs, environment.clock->Wall()));
    }
    return ExitCode::kSuccess;
  }

 private:
  absl::StatusOr<std::vector<v1::JobState>> States() const {
    std::vector<v1::JobState> states;
    for (const std::string& name :
         std::vector<std::string>(absl::StrSplit(states_, ',', absl::SkipEmpty()))) {
      v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
      if (!v1::JobState_Parse(name, &state) || state == v1::JOB_STATE_UNSPECIFIED) {
        return UsageError(absl::StrCat("--state: found '", name,
                                       "', expected QUEUED, STARTING, RUNNING, SUCCEEDED, FAILED "
                                       "or CANCELLED"));
      }
      states.push_back(state);
    }
    return states;
  }

  Connection connection_;
  std::string states_;
  uint64_t limit_ = 50;
};

}  // namespace

std::unique_ptr<Command> MakeListCommand() { return std::make_unique<ListCommand>(); }

}  // namespace sangam
