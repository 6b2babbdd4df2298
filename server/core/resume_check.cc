#include "server/core/resume_check.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/model/field_fault.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "server/core/scheduler.h"

namespace sangam {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

// Fields that a long list of faults has.
constexpr size_t kMaxFaults = 100;
constexpr size_t kMaxValueBytes = 200;

// Notes every difference as a fault.
class FaultReporter : public MessageDifferencer::Reporter {
 public:
  explicit FaultReporter(std::vector<FieldFault>* faults) : faults_(*faults) {}

  void ReportAdded(const Message& spec, const Message& checkpoint,
                   const std::vector<MessageDifferencer::SpecificField>& path) override {
    Report(spec, checkpoint, path, Side::kCheckpoint);
  }
  void ReportDeleted(const Message& spec, const Message& checkpoint,
                     const std::vector<MessageDifferencer::SpecificField>& path) override {
    Report(spec, checkpoint, path, Side::kSpec);
  }
  void ReportModified(const Message& spec, const Message& checkpoint,
                      const std::vector<MessageDifferencer::SpecificField>& path) override {
    // A message that differs within: the fields within come by themselves.
    if (path.back().field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return;
    Report(spec, checkpoint, path, Side::kBoth);
  }

 private:
  enum class Side { kSpec, kCheckpoint, kBoth };

  // Of the field that the path ends with; `parent` is the message that has it.
  static std::string ValueOf(const Message& parent, const MessageDifferencer::SpecificField& last,
                             bool of_spec) {
    const int index = last.field->is_repeated() ? (of_spec ? last.index : last.new_index) : -1;
    google::protobuf::TextFormat::Printer printer;
    printer.SetSingleLineMode(true);
    std::string text;
    printer.PrintFieldValueToString(parent, last.field, index, &text);
    absl::StripTrailingAsciiWhitespace(&text);
    if (text.size() > kMaxValueBytes) text = absl::StrCat(text.substr(0, kMaxValueBytes), "...");
    return text.empty() ? "{}" : text;
  }

  void Report(const Message& spec, const Message& checkpoint,
              const std::vector<MessageDifferencer::SpecificField>& path, Side side) {
    if (faults_.size() >= kMaxFaults) return;
    std::string name;
    for (const MessageDifferencer::SpecificField& step : path) {
      absl::StrAppend(&name, name.empty() ? "" : ".", std::string(step.field->name()));
      if (!step.field->is_repeated()) continue;
      absl::StrAppend(&name, "[", side == Side::kCheckpoint ? step.new_index : step.index, "]");
    }
    const std::string found = side == Side::kCheckpoint ? "none" : ValueOf(spec, path.back(), true);
    const std::string expected =
        side == Side::kSpec ? "none" : ValueOf(checkpoint, path.back(), false);
    AddFault(&faults_, std::move(name), "found ", found, ", expected ", expected,
             " as in the checkpoint's job");
  }

  std::vector<FieldFault>& faults_;
};

// Whether the learning rate follows from the number of all steps.
bool RateDependsOnLength(const v1::LearningRateSpec& schedule) {
  return (schedule.has_linear() && schedule.linear().decay_steps() == 0) ||
         (schedule.has_cosine() && schedule.cosine().decay_steps() == 0);
}

// What the result depends on.
v1::JobSpec Essence(const v1::JobSpec& spec) {
  v1::JobSpec essence;
  *essence.mutable_model() = spec.model();
  *essence.mutable_loss() = spec.loss();
  *essence.mutable_data() = spec.data();
  essence.mutable_data()->set_served(false);
  *essence.mutable_optimizer() = spec.optimizer();
  *essence.mutable_batch() = spec.batch();
  essence.set_seed(spec.seed());
  essence.set_precision(spec.precision() == v1::PRECISION_UNSPECIFIED ? v1::FP32
                                                                      : spec.precision());
  if (RateDependsOnLength(spec.optimizer().schedule())) {
    if (spec.has_epochs()) essence.set_epochs(spec.epochs());
    if (spec.has_steps()) essence.set_steps(spec.steps());
  }
  return essence;
}

}  // namespace

std::vector<FieldFault> CheckResume(const v1::JobSpec& spec, const v1::JobSpec& checkpoint) {
  std::vector<FieldFault> faults;
  FaultReporter reporter(&faults);
  MessageDifferencer differencer;
  differencer.ReportDifferencesTo(&reporter);
  differencer.Compare(Essence(spec), Essence(checkpoint));
  return faults;
}

absl::Status CheckResumeKind(absl::string_view workers, absl::string_view checkpoint) {
  if (workers.empty() || checkpoint.empty() || IsSameKind(workers, checkpoint)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("kind of workers: found ", workers,
                                                    ", expected ", checkpoint,
                                                    " as of the checkpoint; their sums differ"));
}

}  // namespace sangam
