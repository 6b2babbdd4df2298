#ifndef SANGAM_SERVER_CORE_OPTIMIZER_H_
#define SANGAM_SERVER_CORE_OPTIMIZER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/model.pb.h"
#include "server/core/vector_kernels.h"

namespace sangam {

// Elements [begin, end) of a page that are updated alike.
struct ParameterRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t parameter = 0;  // ParameterLayout.parameter_index; of joined parameters the first one's
  float weight_decay = 0;
  float average_rate = 0;  // ParameterLayout.average_rate; 0: trained
  friend bool operator==(const ParameterRange& a, const ParameterRange& b) {
    return a.begin == b.begin && a.end == b.end && a.parameter == b.parameter &&
           a.weight_decay == b.weight_decay && a.average_rate == b.average_rate;
  }
};

// What changes from step to step.
struct StepNumbers {
  float learning_rate = 0;
  uint64_t updates = 0;  // made before this one
  float scale = 1;       // of the gradients of trained ranges
};

// How weights follow gradients. Immutable, may be copied and shared by threads.
//
// Formulas: OptimizerSpec in proto/model.proto; the order of the float operations stands in
// vector_kernels.h. Factors that depend on the number of updates (Adam's bias corrections) are
// computed once per call in double, by additions, multiplications, quotients and roots alone, and
// rounded once to float.
class Optimizer {
 public:
  // The most floats of state that any optimizer keeps for one weight.
  static constexpr int kMaxState = 3;

  // A run of weights in memory. All arrays have `count` floats and do not overlap.
  struct Elements {
    size_t count = 0;
    const float* weights = nullptr;            // w, of the step
    std::array<float*, kMaxState> state = {};  // the first state_count() are used; updated in place
    float* next = nullptr;                     // in: the mean gradient; out: the new weights
    // Sorted, disjoint, together [0, count).
    const std::vector<ParameterRange>* ranges = nullptr;
  };

  // Errors: InvalidArgument  what CheckOptimizer of common/model finds
  static absl::StatusOr<Optimizer> Create(const v1::OptimizerSpec& spec);

  // That of the spec, which a schedule multiplies by its factor.
  float learning_rate() const { return learning_rate_; }
  // Floats of state for each weight.
  int state_count() const { return static_cast<int>(names_.size()); }
  const char* state_name(int i) const { return names_[i]; }
  // Its value before the first update.
  float initial_state(int) const { return initial_state_; }
  // Whether an update takes two rounds: Direct, then Apply with the ratios of whole parameters.
  bool needs_trust_ratios() const { return kind_ == Kind::kLamb; }

  // Turns the gradient into the weights of the next step.
  // REQUIRES: !needs_trust_ratios()
  void Update(const StepNumbers& numbers, const Elements& elements,
              const VectorKernels& kernels) const;

  // First round. The state moves on; `next` becomes the direction r, of averaged ranges the new
  // weights. `norms` becomes the squares of the norms of w and of r for each range, as
  // SumOfSquares gives them; 0 for averaged ranges.
  // REQUIRES: needs_trust_ratios()
  void Direct(const StepNumbers& numbers, const Elements& elements, const VectorKernels& kernels,
              std::vector<double>* norms) const;

  // Second round. next = w - (learning_rate * trust) * next, with the product of the rate and the
  // range's trust rounded to float; averaged ranges are left as they are.
  // REQUIRES: needs_trust_ratios(); trust.size() == elements.ranges->size()
  void Apply(const StepNumbers& numbers, const std::vector<float>& trust, const Elements& elements,
             const VectorKernels& kernels) const;

  // Sum of the squares of `next` over the trained ranges: SumOfSquares of each, added in their
  // order.
  static double SquaredNorm(const Elements& elements, const VectorKernels& kernels);

 private:
  enum class Kind { kSgd, kMomentum, kAdagrad, kRmsProp, kAdam, kAdamW, kLamb };

  Optimizer() = default;
  void SetAdam(Kind kind, float beta1, float beta2, float epsilon);
  void UpdateRange(const StepNumbers& numbers, float weight_decay, const UpdateRun& run,
                   const VectorKernels& kernels) const;
  AdamStep AdamStepOf(const StepNumbers& numbers, float weight_decay) const;
  LambStep LambStepOf(const StepNumbers& numbers, float weight_decay) const;

  Kind kind_ = Kind::kSgd;
  float learning_rate_ = 0;
  std::vector<const char*> names_;
  float initial_state_ = 0;
  float momentum_ = 0;
  bool nesterov_ = false;
  bool centered_ = false;
  float beta1_ = 0;  // RMSProp's alpha
  float beta2_ = 0;
  float epsilon_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_OPTIMIZER_H_
