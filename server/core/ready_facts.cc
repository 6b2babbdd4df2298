#include "server/core/ready_facts.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

constexpr uint64_t kMaxSteps = uint64_t{1} << 48;
// Terms of the loss in one data set. None has more; keeps sums within 64 bits whatever a peer says.
constexpr uint64_t kMaxTerms = uint64_t{1} << 48;

absl::Status CheckSame(absl::string_view what, const ReportedFacts& a, uint64_t a_value,
                       const ReportedFacts& b, uint64_t b_value) {
  if (a_value == b_value) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the workers do not see the same data: ", what,
                                                 ": ", a.reader, " found ", a_value, ", ", b.reader,
                                                 " found ", b_value));
}

}  // namespace

absl::StatusOr<DataFacts> AgreeOnFacts(const std::vector<ReportedFacts>& reported,
                                       const v1::JobSpec& spec, const v1::ModelLayout& layout) {
  SANGAM_CHECK(!reported.empty());
  const ReportedFacts& first = reported.front();
  for (const ReportedFacts& other : reported) {
    RETURN_IF_ERROR(CheckSame("training samples", first, first.report.train_samples(), other,
                              other.report.train_samples()));
    RETURN_IF_ERROR(CheckSame("test samples", first, first.report.test_samples(), other,
                              other.report.test_samples()));
    RETURN_IF_ERROR(
        CheckSame("classes", first, first.report.classes(), other, other.report.classes()));
  }
  const DataFacts facts{first.report.train_samples(), first.report.test_samples(),
                        first.report.classes()};
  const uint64_t max_samples = kMaxTerms / std::max<uint64_t>(layout.terms_per_sample(), 1);
  if (facts.train_samples == 0 || facts.train_samples > max_samples ||
      facts.test_samples > max_samples) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: found ", facts.train_samples, " training and ", facts.test_samples,
                     " test samples, expected 1 to ", max_samples, " and at most ", max_samples));
  }
  if (!spec.evaluation().off() && facts.test_samples == 0) {
    return absl::InvalidArgumentError(
        "data: found no test samples, expected at least 1 because the job evaluates "
        "(evaluation.off is false)");
  }
  const uint64_t outputs = *layout.block(layout.block_size() - 1).output_shape().rbegin();
  if (facts.classes > outputs) {
    return absl::InvalidArgumentError(absl::StrCat("data: found ", facts.classes,
                                                   " classes (1 + the largest label), expected at "
                                                   "most ",
                                                   outputs,
                                                   ", the last dimension of the model's output"));
  }
  return facts;
}

absl::StatusOr<JobLength> LengthOf(const v1::JobSpec& spec, const DataFacts& facts) {
  const BatchCut cut{spec.batch().size(), spec.batch().micro_batches(), spec.batch().shares(),
                     facts.train_samples};
  JobLength length;
  length.train_samples = facts.train_samples;
  length.test_samples = spec.evaluation().off() ? 0 : facts.test_samples;
  length.steps_per_epoch = cut.StepsPerEpoch();
  if (!spec.has_epochs()) {
    length.steps_total = spec.steps();
  } else if (spec.epochs() <= kMaxSteps / length.steps_per_epoch) {
    length.steps_total = spec.epochs() * length.steps_per_epoch;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("epochs: found ", spec.epochs(), " of ", length.steps_per_epoch,
                     " steps each, expected at most ", kMaxSteps, " steps"));
  }
  return length;
}

}  // namespace sangam
