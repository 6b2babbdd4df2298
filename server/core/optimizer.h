#ifndef SANGAM_SERVER_CORE_OPTIMIZER_H_
#define SANGAM_SERVER_CORE_OPTIMIZER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/model.pb.h"
#include "server/core/vector_kernels.h"

namespace sangam {

// Elements [begin, end).
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  friend bool operator==(ElementRange a, ElementRange b) {
    return a.begin == b.begin && a.end == b.end;
  }
};

// How weights follow gradients. Immutable, may be copied and shared by threads.
//
// Formulas: OptimizerSpec in proto/model.proto; the order of the float operations stands in
// vector_kernels.h. What a step's number decides (AdamW's bias corrections) is computed once per
// call in double and rounded once to float.
class Optimizer {
 public:
  // The most floats of state that any optimizer keeps for one weight.
  static constexpr int kMaxState = 2;

  // A run of weights in memory. All arrays have `count` floats and do not overlap.
  struct Elements {
    size_t count = 0;
    const float* weights = nullptr;            // w, of the step
    std::array<float*, kMaxState> state = {};  // the first state_count() are used; updated in place
    float* next = nullptr;                     // in: the gradient; out: the new weights
    // Where weight decay applies: sorted, disjoint, within [0, count).
    const std::vector<ElementRange>* decay = nullptr;
  };

  // Errors: InvalidArgument  a number outside the range that proto/model.proto gives, or no kind
  static absl::StatusOr<Optimizer> Create(const v1::OptimizerSpec& spec);

  // Floats of state for each weight; all 0 before the first step.
  int state_count() const { return state_count_; }

  // Turns the gradient of `step` (counted from 0) into the weights of step + 1.
  void Update(uint64_t step, const Elements& elements, const VectorKernels& kernels) const;

 private:
  enum class Kind { kSgd, kMomentum, kAdamW };

  Optimizer() = default;
  absl::Status SetAdamW(const v1::AdamWSpec& spec);
  AdamWStep AdamWStepOf(uint64_t step) const;
  void UpdateAdamW(uint64_t step, const Elements& elements, const VectorKernels& kernels) const;

  Kind kind_ = Kind::kSgd;
  int state_count_ = 0;
  float learning_rate_ = 0;
  float momentum_ = 0;
  float beta1_ = 0;
  float beta2_ = 0;
  float epsilon_ = 0;
  float weight_decay_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_OPTIMIZER_H_
