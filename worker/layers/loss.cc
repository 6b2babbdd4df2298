#include "worker/layers/loss.h"

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

class SoftmaxCrossEntropyLoss : public Loss {
 public:
  absl::StatusOr<LossSums> Compute(Backend* backend, ConstMatrix outputs, const uint32_t* labels,
                                   Matrix* gradient) const override {
    ASSIGN_OR_RETURN(const ClassificationSums sums,
                     backend->SoftmaxCrossEntropy(outputs, labels, gradient));
    return LossSums{sums.loss, sums.correct};
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Loss>> Loss::Create(const v1::LossSpec& spec) {
  switch (spec.kind_case()) {
    case v1::LossSpec::kSoftmaxCrossEntropy:
      return std::make_unique<SoftmaxCrossEntropyLoss>();
    case v1::LossSpec::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "loss: found none that can be computed, expected softmax_cross_entropy");
}

}  // namespace sangam
