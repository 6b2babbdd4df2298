#include "client/commands/wait.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/follow.h"
#include "client/commands/job_tables.h"
#include "client/final_line.h"
#include "client/human_format.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

constexpr char kEnded[] = "ended";
// How long the coordinator may be out of reach when no --timeout bounds it.
constexpr absl::Duration kLongestOutage = absl::Minutes(5);

bool HasReached(const v1::Job& job, const std::string& goal) {
  if (goal == kEnded) return HasEnded(job.state());
  return std::any_of(job.history().begin(), job.history().end(), [&goal](const auto& change) {
    return v1::JobState_Name(change.state()) == goal;
  });
}

// Ends the watch when the job comes to the goal.
class Waiter : public WatchHandler {
 public:
  Waiter(std::string goal, Console* console) : goal_(std::move(goal)), console_(*console) {}

  absl::Status OnEvent(const v1::JobEvent& event) override {
    lost_ = false;
    if (!event.has_state() || v1::JobState_Name(event.state().state()) != goal_) {
      return absl::OkStatus();
    }
    reached_ = true;
    return absl::AbortedError("reached");
  }
  void OnLost(const absl::Status& why) override {
    if (!lost_) {
      console_.Err(absl::StrCat("connection to the coordinator lost, trying again (",
                                OneLine(why.message()), ")\n"));
    }
    lost_ = true;
  }
  void OnBack() override { lost_ = false; }

  bool lost() const { return lost_; }
  bool reached() const { return reached_; }

 private:
  const std::string goal_;
  Console& console_;
  bool lost_ = false;
  bool reached_ = false;
};

class WaitCommand : public Command {
 public:
  CommandText text() const override {
    return {"wait",
            "JOB",
            "Wait until a job has ended, or has come to a state.",
            "JOB is a job's number, or its name: then the newest job of that name.\n\n"
            "The exit code is 0 when the job succeeded, or came to the state of --for, also\n"
            "when it has left it again. Else 3: it failed, 4: it was cancelled, 1: it ended\n"
            "without having come to the state, 5: there is no such job, 7: the coordinator\n"
            "is out of reach, 9: --timeout is over. An outage of the coordinator ends the\n"
            "waiting only when it lasts until then, or for 5 minutes without --timeout.\n"
            "Ctrl-C only ends the waiting.\n",
            {"sangam wait 12", "sangam wait mnist --for=RUNNING --timeout=2m"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    flags->AddChoice({"for", "", "What to wait for."},
                     {kEnded, "QUEUED", "STARTING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"},
                     &goal_);
    flags->AddDuration(
        {"timeout", "TIME", "How long to wait at most. Default: as long as it takes."}, &timeout_);
    connection_.AddCoordinatorFlag(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    Waiter waiter(goal_, environment.console);
    const absl::Duration end = environment.clock->Steady() + timeout_;
    connection_.set_timeout(std::min(timeout_, kLongestOutage));
    if (timeout_ != absl::InfiniteDuration()) connection_.set_timeout(timeout_);
    ASSIGN_OR_RETURN(
        const std::unique_ptr<JobClient> client,
        connection_.Connect(environment, [&]() -> absl::Status {
          if (environment.clock->Steady() < end) return absl::OkStatus();
          const std::string text = absl::StrCat(
              arguments[0], goal_ == kEnded ? " has not ended" : " has not come to ",
              goal_ == kEnded ? "" : goal_, " within ", HumanDuration(timeout_), " (--timeout)");
          return waiter.lost() ? absl::UnavailableError(text) : absl::DeadlineExceededError(text);
        }));
    ASSIGN_OR_RETURN(v1::Job job, client->Get(arguments[0]));
    if (!HasReached(job, goal_) && !HasEnded(job.state())) {
      const absl::Status watched = client->Watch(job.id(), 0, &waiter);
      if (!watched.ok() && !waiter.reached()) return watched;
      ASSIGN_OR_RETURN(job, client->Get(absl::StrCat(job.id())));
    }
    // What came as an event may be too old for the history, or the other way round.
    return Show(job, waiter.reached() || HasReached(job, goal_), environment);
  }

 private:
  absl::StatusOr<ExitCode> Show(const v1::Job& job, bool reached,
                                const Environment& environment) const {
    if (connection_.json()) {
      ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(job));
      environment.console->Out(absl::StrCat(json, "\n"));
    } else if (HasEnded(job.state())) {
      environment.console->Out(absl::StrCat(FinalLine(job), "\n"));
    } else {
      environment.console->Out(absl::StrCat("job ", job.id(), " (", JobTitle(job), ") is ",
                                            StateName(job.state()), "\n"));
    }
    if (goal_ != kEnded && reached) return ExitCode::kSuccess;
    const ExitCode code = ExitCodeOf(job);
    return goal_ != kEnded && code == ExitCode::kSuccess ? ExitCode::kFailure : code;
  }

  Connection connection_;
  std::string goal_ = kEnded;
  absl::Duration timeout_ = absl::InfiniteDuration();
};

}  // namespace

std::unique_ptr<Command> MakeWaitCommand() { return std::make_unique<WaitCommand>(); }

}  // namespace sangam
