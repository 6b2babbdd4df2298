#include "client/commands/follow.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/commands/command.h"
#include "client/console.h"
#include "client/human_format.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "client/progress.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

bool OnTerminal(const FollowOptions& options, const Console& console) {
  return options.progress_on_error_stream ? console.err_is_terminal() : console.out_is_terminal();
}

// Turns a watch into text on the console.
class Display : public WatchHandler {
 public:
  Display(const std::string& loss_unit, const FollowOptions& options,
          const Environment& environment)
      : options_(options),
        environment_(environment),
        view_(OnTerminal(options, *environment.console) ? ProgressView::Style::kBar
                                                        : ProgressView::Style::kLines,
              loss_unit) {}
  ~Display() override { Show(view_.End()); }

  absl::Status OnEvent(const v1::JobEvent& event) override {
    if (options_.json) {
      ASSIGN_OR_RETURN(const std::string line, ToJsonLine(event));
      environment_.console->Out(absl::StrCat(line, "\n"));
    } else {
      Show(view_.Add(event, environment_.clock->Steady()));
    }
    connected_ = true;
    return options_.on_event(event);
  }

  absl::Status OnIdle() override {
    if (!options_.json) {
      Show(view_.Tick(environment_.clock->Steady(), environment_.console->width()));
    }
    return options_.on_idle();
  }

  void OnLost(const absl::Status& why) override {
    if (!connected_) return;
    connected_ = false;
    const std::string text = absl::StrCat("connection to the coordinator lost, trying again (",
                                          OneLine(why.message()), ")");
    if (options_.json) {
      environment_.console->Err(absl::StrCat(text, "\n"));
    } else {
      Show(view_.Note(text));
    }
  }

 private:
  void Show(absl::string_view text) {
    if (text.empty()) return;
    if (options_.progress_on_error_stream) {
      environment_.console->Err(text);
    } else {
      environment_.console->Out(text);
    }
  }

  const FollowOptions& options_;
  const Environment& environment_;
  ProgressView view_;
  // Whether an event has come since the connection was lost the last time.
  bool connected_ = true;
};

}  // namespace

absl::StatusOr<v1::Job> FollowJob(const v1::Job& job, const FollowOptions& options,
                                  const Environment& environment, JobClient* client) {
  Display display(LossUnit(job.spec()), options, environment);
  RETURN_IF_ERROR(client->Watch(job.id(), 0, &display));
  ASSIGN_OR_RETURN(v1::Job ended, client->Get(absl::StrCat(job.id())));
  if (!HasEnded(ended.state())) {
    return absl::InternalError(absl::StrCat("the coordinator ended the events of job ", job.id(),
                                            ", which is still ", StateName(ended.state())));
  }
  return ended;
}

ExitCode ExitCodeOf(const v1::Job& job) {
  switch (job.state()) {
    case v1::SUCCEEDED:
      return ExitCode::kSuccess;
    case v1::FAILED:
      return ExitCode::kJobFailed;
    case v1::CANCELLED:
      return ExitCode::kJobCancelled;
    default:
      return ExitCode::kFailure;
  }
}

}  // namespace sangam
