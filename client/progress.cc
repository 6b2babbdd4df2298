#include "client/progress.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/human_format.h"

namespace sangam {
namespace {

constexpr absl::Duration kStepLinePeriod = absl::Seconds(5);
// Epochs may be shorter than one can read.
constexpr absl::Duration kEpochLinePeriod = absl::Seconds(1);
constexpr absl::Duration kBarPeriod = absl::Milliseconds(100);
constexpr int kDefaultWidth = 80;
// Terminals write "^C" behind the bar; if that begins a new line, the old one cannot be erased.
constexpr int kFreeColumns = 3;
constexpr size_t kShortestBar = 10;
constexpr size_t kLongestBar = 30;
// Return to the line's beginning and erase it (ECMA-48 EL).
constexpr absl::string_view kEraseLine = "\r\x1b[K";

// A piece of the bar's line; the ones with the largest `rank` go first when the line is too long.
struct Piece {
  std::string text;
  int rank;
};

size_t Length(const std::vector<Piece>& pieces) {
  size_t length = 0;
  for (const Piece& piece : pieces) length += 2 + piece.text.size();
  return length;
}

// Leaves out pieces until the rest fits into `room`.
void DropUntilFits(std::vector<Piece>* pieces, size_t room) {
  while (!pieces->empty() && Length(*pieces) > room) {
    pieces->erase(std::max_element(pieces->begin(), pieces->end(),
                                   [](const Piece& a, const Piece& b) { return a.rank < b.rank; }));
  }
}

std::string DrawBar(size_t width, uint64_t done, uint64_t total) {
  const size_t inner = width - 2;
  const size_t full = total == 0 ? 0
                                 : static_cast<size_t>(static_cast<double>(inner) *
                                                       static_cast<double>(std::min(done, total)) /
                                                       static_cast<double>(total));
  std::string bar(full, '=');
  if (full < inner) bar.push_back('>');
  bar.resize(inner, ' ');
  return absl::StrCat("[", bar, "]");
}

}  // namespace

std::string ProgressView::Add(const v1::JobEvent& event, absl::Duration now) {
  if (!first_add_.has_value()) first_add_ = now;
  last_time_ = ToTime(event.time());
  if (!first_time_.has_value()) first_time_ = last_time_;
  if (event.steps_total() != 0) steps_total_ = event.steps_total();
  if (event.steps_per_epoch() != 0) steps_per_epoch_ = event.steps_per_epoch();

  std::string text;
  if (event.dropped() != 0) {
    absl::StrAppend(&text, Line(absl::StrCat("(", event.dropped(), " earlier events are gone)")));
  }
  switch (event.kind_case()) {
    case v1::JobEvent::kState:
      absl::StrAppend(&text, AddState(event.state()));
      break;
    case v1::JobEvent::kStep:
      absl::StrAppend(&text, AddStep(event.step(), now));
      break;
    case v1::JobEvent::kEvaluation:
      absl::StrAppend(&text, AddEvaluation(event.evaluation()));
      break;
    case v1::JobEvent::kMessage:
      message_ = OneLine(event.message());
      absl::StrAppend(&text, Line(message_));
      break;
    case v1::JobEvent::kCheckpoint:
      absl::StrAppend(&text,
                      Line(absl::StrCat("checkpoint of step ", event.checkpoint().step(),
                                        " is complete, ", HumanBytes(event.checkpoint().bytes()))));
      break;
    case v1::JobEvent::KIND_NOT_SET:
    default:
      // Of a newer coordinator.
      break;
  }
  return text;
}

std::string ProgressView::Note(absl::string_view text) { return Line(OneLine(text)); }

std::string ProgressView::AddState(const v1::StateChange& change) {
  state_ = change.state();
  message_.clear();
  if (state_ == v1::PREEMPTED) {
    // It will start again at a step that only its steps tell.
    step_.reset();
    pace_time_.reset();
    again_ = true;
  }
  if (state_ == v1::RUNNING && !again_) {
    pace_time_ = last_time_;
    pace_steps_ = step_.has_value() ? step_->step() + 1 : 0;
  }
  std::string text = StateName(state_);
  if (state_ == v1::RUNNING && steps_total_ != 0) {
    absl::StrAppend(&text, ": ", steps_total_, " steps");
    if (steps_per_epoch_ != 0) absl::StrAppend(&text, ", ", steps_per_epoch_, " per epoch");
  } else if (!change.reason().empty()) {
    absl::StrAppend(&text, ": ", OneLine(change.reason()));
  }
  return Line(text);
}

std::string ProgressView::AddStep(const v1::StepMetrics& step, absl::Duration now) {
  step_ = step;
  step_time_ = last_time_;
  last_step_add_ = now;
  const uint64_t done = step.step() + 1;
  if (!pace_time_.has_value()) {
    pace_time_ = last_time_;
    pace_steps_ = done;
  }
  const bool epoch_ends = steps_per_epoch_ != 0 && done % steps_per_epoch_ == 0;
  const absl::Duration period = epoch_ends ? kEpochLinePeriod : kStepLinePeriod;
  const bool due =
      done == steps_total_ || !last_step_line_.has_value() || now - *last_step_line_ >= period;
  if (style_ == Style::kBar || !due) return "";
  last_step_line_ = now;

  std::string text = absl::StrCat("step ", done);
  if (steps_total_ != 0) {
    absl::StrAppend(&text, "/", steps_total_, " (", Percent(done, steps_total_), "%)");
  }
  if (steps_per_epoch_ != 0) absl::StrAppend(&text, "  epoch ", EpochText());
  absl::StrAppend(&text, "  loss ", HumanLoss(step.loss()), loss_unit_, "  ",
                  HumanRate(step.samples_per_second()), " samples/s");
  const std::optional<absl::Duration> left = Left();
  if (left.has_value() && done < steps_total_) {
    absl::StrAppend(&text, "  ", HumanDuration(*left), " left");
  }
  return Line(text);
}

std::string ProgressView::AddEvaluation(const v1::Evaluation& evaluation) {
  const std::string accuracy =
      accuracy_ ? absl::StrFormat("accuracy %.4f  ", evaluation.accuracy()) : "";
  return Line(absl::StrCat("test ", accuracy, "loss ", HumanLoss(evaluation.loss()), loss_unit_,
                           "  after step ", evaluation.step()));
}

std::string ProgressView::Line(absl::string_view text) {
  const absl::Duration elapsed =
      first_time_.has_value() ? last_time_ - *first_time_ : absl::ZeroDuration();
  const std::string line = absl::StrFormat("%7s  %s\n", HumanDuration(elapsed), text);
  return absl::StrCat(End(), line);
}

std::string ProgressView::End() {
  if (!bar_on_screen_) return "";
  bar_on_screen_ = false;
  return std::string(kEraseLine);
}

std::string ProgressView::EpochText() const {
  const uint64_t epoch = step_.has_value() ? step_->epoch() + 1 : 1;
  if (steps_total_ == 0) return absl::StrCat(epoch);
  return absl::StrCat(epoch, "/", EpochsOf(steps_total_, steps_per_epoch_));
}

std::optional<absl::Duration> ProgressView::Left() const {
  if (!step_.has_value() || !pace_time_.has_value() || steps_total_ == 0) return std::nullopt;
  const uint64_t done = step_->step() + 1;
  if (done <= pace_steps_) return std::nullopt;
  const double steps_left = static_cast<double>(steps_total_ - std::min(done, steps_total_));
  return (step_time_ - *pace_time_) * (steps_left / static_cast<double>(done - pace_steps_));
}

std::string ProgressView::Tick(absl::Duration now, int width) {
  if (style_ == Style::kLines || !first_add_.has_value() || HasEnded(state_)) return "";
  // A bar that a line has just replaced is drawn again at once: it would seem to blink otherwise.
  const bool due = !last_bar_.has_value() || now - *last_bar_ >= kBarPeriod || !bar_on_screen_;
  if (!due) return "";
  last_bar_ = now;
  bar_on_screen_ = true;
  return absl::StrCat(kEraseLine, Bar(now, width));
}

std::string ProgressView::Bar(absl::Duration now, int width) const {
  const int columns = width <= 0 ? kDefaultWidth : width;
  const auto room = static_cast<size_t>(std::max(1, columns - kFreeColumns));
  if (!step_.has_value()) {
    std::string text = absl::StrCat(StateName(state_), message_.empty() ? "" : ": ", message_, "  ",
                                    HumanDuration(now - *first_add_));
    text.resize(std::min(text.size(), room));
    return text;
  }
  const uint64_t done = step_->step() + 1;
  std::vector<Piece> pieces;
  if (steps_total_ != 0) {
    pieces.push_back({absl::StrFormat("%3d%%", Percent(done, steps_total_)), 0});
    pieces.push_back({absl::StrCat(done, "/", steps_total_), 2});
  } else {
    pieces.push_back({absl::StrCat("step ", done), 0});
  }
  if (steps_per_epoch_ != 0) pieces.push_back({absl::StrCat("epoch ", EpochText()), 4});
  pieces.push_back({absl::StrCat("loss ", HumanLoss(step_->loss()), loss_unit_), 1});
  pieces.push_back({absl::StrCat(HumanRate(step_->samples_per_second()), " samples/s"), 5});
  const std::optional<absl::Duration> left = Left();
  if (left.has_value()) {
    pieces.push_back({absl::StrCat(HumanDuration(*left - (now - last_step_add_)), " left"), 3});
  }
  DropUntilFits(&pieces, room > kShortestBar ? room - kShortestBar : 0);
  const size_t bar = std::min(kLongestBar, room - Length(pieces));
  std::string text = bar >= kShortestBar ? DrawBar(bar, done, steps_total_) : "";
  for (const Piece& piece : pieces) absl::StrAppend(&text, text.empty() ? "" : "  ", piece.text);
  text.resize(std::min(text.size(), room));
  return text;
}

}  // namespace sangam
