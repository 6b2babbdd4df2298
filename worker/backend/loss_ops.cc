#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/checks.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

class Known : public PendingSums {
 public:
  explicit Known(const ClassificationSums& sums) : sums_(sums) {}
  absl::StatusOr<ClassificationSums> Get() override { return sums_; }

 private:
  ClassificationSums sums_;
};

// What a loss is taken of, and its gradient where one is wanted.
absl::Status CheckLoss(absl::string_view operation, absl::string_view name, ConstMatrix outputs,
                       const Matrix* gradient) {
  RETURN_IF_ERROR(CheckView(operation, name, outputs));
  if (gradient == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(CheckShape(operation, "gradient", *gradient, outputs.rows, outputs.cols));
  return CheckElementwise(operation, name, outputs, *gradient);
}

}  // namespace

std::unique_ptr<PendingSums> KnownSums(const ClassificationSums& sums) {
  return std::make_unique<Known>(sums);
}

absl::StatusOr<std::unique_ptr<PendingSums>> Backend::SquaredError(ConstMatrix outputs,
                                                                   const float* targets,
                                                                   Matrix* gradient) {
  constexpr absl::string_view kOperation = "squared error";
  RETURN_IF_ERROR(CheckLoss(kOperation, "outputs", outputs, gradient));
  if (outputs.size() == 0) return KnownSums({});
  RETURN_IF_ERROR(CheckHostPointer(kOperation, targets, outputs));
  return DoSquaredError(outputs, targets, gradient);
}

absl::StatusOr<std::unique_ptr<PendingSums>> Backend::BinaryCrossEntropy(ConstMatrix outputs,
                                                                         const float* targets,
                                                                         Matrix* gradient) {
  constexpr absl::string_view kOperation = "binary cross-entropy";
  RETURN_IF_ERROR(CheckLoss(kOperation, "outputs", outputs, gradient));
  if (outputs.size() == 0) return KnownSums({});
  RETURN_IF_ERROR(CheckHostPointer(kOperation, targets, outputs));
  for (int64_t i = 0; i < outputs.size(); ++i) {
    if (targets[i] >= 0 && targets[i] <= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(kOperation, ": target of row ", i / outputs.cols, ", column ",
                     i % outputs.cols, " is ", targets[i], ", expected a number between 0 and 1"));
  }
  return DoBinaryCrossEntropy(outputs, targets, gradient);
}

absl::StatusOr<std::unique_ptr<PendingSums>> Backend::SoftmaxCrossEntropy(ConstMatrix logits,
                                                                          const uint32_t* labels,
                                                                          Matrix* gradient) {
  constexpr absl::string_view kOperation = "softmax cross-entropy";
  RETURN_IF_ERROR(CheckLoss(kOperation, "logits", logits, gradient));
  if (logits.rows == 0) return KnownSums({});
  if (labels == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(kOperation, ": there are no labels"));
  }
  for (int64_t row = 0; row < logits.rows; ++row) {
    if (labels[row] >= logits.cols) {
      return absl::InvalidArgumentError(absl::StrCat(kOperation, ": label of row ", row, " is ",
                                                     labels[row], ", expected one of ", logits.cols,
                                                     " classes"));
    }
  }
  return DoSoftmaxCrossEntropy(logits, labels, gradient);
}

}  // namespace sangam
