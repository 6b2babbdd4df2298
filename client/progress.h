#ifndef SANGAM_CLIENT_PROGRESS_H_
#define SANGAM_CLIENT_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/job_service.pb.h"

namespace sangam {

// Shows a job's events to people: turns events and the time into text to be written at once. Pure
// and not thread-safe: `now` is any steady time.
//
// Lines: one for each change of state, evaluation and message, each end of an epoch, and in between
// one every few seconds. Their first column is the time since the job's first event, by the
// coordinator's clock.
//
// Bar, for terminals: the same without the steps' lines; these move a bar on the last line:
//   [=========>        ]  52%  368/705  epoch 2/3  loss 0.3567  24103 samples/s  7.2s left
class ProgressView {
 public:
  enum class Style { kLines, kBar };
  // `loss_unit` stands behind every loss, see LossUnit; `accuracy`: see HasAccuracy.
  explicit ProgressView(Style style, std::string loss_unit = "", bool accuracy = true)
      : style_(style), loss_unit_(std::move(loss_unit)), accuracy_(accuracy) {}

  // Takes in an event.
  std::string Add(const v1::JobEvent& event, absl::Duration now);

  // A line that comes from no event, such as a lost connection.
  std::string Note(absl::string_view text);

  // Redraws the bar when it is due: at most ten times a second, in fewer than `width` columns. To
  // be called often; nothing in the style kLines.
  std::string Tick(absl::Duration now, int width);

  // Takes the bar away; what is written next begins a line.
  std::string End();

 private:
  std::string AddState(const v1::StateChange& change);
  std::string AddStep(const v1::StepMetrics& step, absl::Duration now);
  std::string AddEvaluation(const v1::Evaluation& evaluation);
  // `text` as a line of its own, above the bar if there is one.
  std::string Line(absl::string_view text);
  std::string Bar(absl::Duration now, int width) const;
  std::string EpochText() const;
  // Time that the remaining steps will take; nullopt while unknown.
  std::optional<absl::Duration> Left() const;

  const Style style_;
  const std::string loss_unit_;
  const bool accuracy_;

  // What the events told.
  v1::JobState state_ = v1::JOB_STATE_UNSPECIFIED;
  std::string message_;
  uint64_t steps_total_ = 0;
  uint64_t steps_per_epoch_ = 0;
  std::optional<v1::StepMetrics> step_;
  bool again_ = false;  // the job has started again
  std::optional<absl::Time> first_time_;
  absl::Time last_time_;
  // Where the speed is measured from: a time and the steps that were done then.
  std::optional<absl::Time> pace_time_;
  uint64_t pace_steps_ = 0;
  absl::Time step_time_;

  // What was written.
  std::optional<absl::Duration> first_add_;
  absl::Duration last_step_add_;
  std::optional<absl::Duration> last_step_line_;
  std::optional<absl::Duration> last_bar_;
  bool bar_on_screen_ = false;
};

}  // namespace sangam

#endif  // SANGAM_CLIENT_PROGRESS_H_
