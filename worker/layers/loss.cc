#include "worker/layers/loss.h"

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

// As model layouts bound a dimension.
constexpr uint64_t kMaxTerms = uint64_t{1} << 31;

// One label for each sample, or for each position of a sample: a row of logits each.
class CrossEntropyLoss : public Loss {
 public:
  explicit CrossEntropyLoss(int64_t terms_per_sample) : terms_per_sample_(terms_per_sample) {}

  absl::StatusOr<std::unique_ptr<PendingSums>> Compute(Backend* backend, ConstMatrix outputs,
                                                       const uint32_t* labels,
                                                       Matrix* gradient) const override {
    if (outputs.cols % terms_per_sample_ != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("cross-entropy: found outputs of ", outputs.cols,
                       " elements, expected a multiple of the ", terms_per_sample_, " labels"));
    }
    // A sample without gaps is its positions, one after the other.
    const int64_t rows = outputs.rows * terms_per_sample_;
    const int64_t classes = outputs.cols / terms_per_sample_;
    Matrix rows_gradient;
    if (gradient != nullptr) {
      if (gradient->rows != outputs.rows || gradient->cols != outputs.cols) {
        return absl::InvalidArgumentError(
            absl::StrCat("cross-entropy: found a gradient of [", gradient->rows, ", ",
                         gradient->cols, "], expected [", outputs.rows, ", ", outputs.cols, "]"));
      }
      rows_gradient = {gradient->data, rows, classes};
    }
    return backend->SoftmaxCrossEntropy({outputs.data, rows, classes}, labels,
                                        gradient == nullptr ? nullptr : &rows_gradient);
  }

 private:
  int64_t terms_per_sample_;
};

// One number as target for each output.
class NumberLoss : public Loss {
 public:
  using Sums = absl::StatusOr<std::unique_ptr<PendingSums>> (Backend::*)(ConstMatrix outputs,
                                                                         const float* targets,
                                                                         Matrix* gradient);

  NumberLoss(absl::string_view name, int64_t terms_per_sample, Sums sums)
      : name_(name), terms_per_sample_(terms_per_sample), sums_(sums) {}

  absl::StatusOr<std::unique_ptr<PendingSums>> Compute(Backend* backend, ConstMatrix outputs,
                                                       const uint32_t* labels,
                                                       Matrix* gradient) const override {
    if (outputs.cols != terms_per_sample_) {
      return absl::InvalidArgumentError(absl::StrCat(name_, ": found outputs of ", outputs.cols,
                                                     " elements, expected the ", terms_per_sample_,
                                                     " targets"));
    }
    // Labels of this kind are the bits of floats (LabelKind::kNumber).
    static_assert(sizeof(float) == sizeof(uint32_t));
    return (backend->*sums_)(outputs, reinterpret_cast<const float*>(labels), gradient);
  }

 private:
  absl::string_view name_;  // a literal
  int64_t terms_per_sample_;
  Sums sums_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Loss>> Loss::Create(const v1::LossSpec& spec,
                                                   uint64_t terms_per_sample) {
  if (terms_per_sample == 0 || terms_per_sample > kMaxTerms) {
    return absl::InvalidArgumentError(absl::StrCat(
        "loss: found ", terms_per_sample, " terms for each sample, expected 1 to ", kMaxTerms));
  }
  const auto terms = static_cast<int64_t>(terms_per_sample);
  switch (spec.kind_case()) {
    case v1::LossSpec::kSoftmaxCrossEntropy:
      if (terms == 1) return std::make_unique<CrossEntropyLoss>(terms);
      return absl::InvalidArgumentError(absl::StrCat("loss.softmax_cross_entropy: found ", terms,
                                                     " terms for each sample, expected 1"));
    case v1::LossSpec::kTokenCrossEntropy:
      return std::make_unique<CrossEntropyLoss>(terms);
    case v1::LossSpec::kMeanSquaredError:
      return std::make_unique<NumberLoss>("mean squared error", terms, &Backend::SquaredError);
    case v1::LossSpec::kBinaryCrossEntropy:
      return std::make_unique<NumberLoss>("binary cross-entropy", terms,
                                          &Backend::BinaryCrossEntropy);
    case v1::LossSpec::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "loss: found none that can be computed, expected softmax_cross_entropy, "
      "token_cross_entropy, mean_squared_error or binary_cross_entropy");
}

}  // namespace sangam
