#ifndef SANGAM_SERVER_CORE_VECTOR_KERNELS_H_
#define SANGAM_SERVER_CORE_VECTOR_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

// The server's inner loops over floats, compiled for several instruction sets (Google Highway).
//
// Every set performs the same IEEE 754 operations on each element in the same order (no fused
// multiply-add, no approximate root or quotient), so the bits do not depend on the machine. Each
// element stands alone, so they do not depend either on where a range begins or ends.
//
// Operands `const uint8_t*` are binary32 of any alignment, as they lie in a received payload. No
// operand may overlap another one.
namespace sangam {

// Weights that are updated alike.
struct UpdateRun {
  const float* weights = nullptr;    // w
  std::array<float*, 3> state = {};  // what the update says; changed in place
  float* next = nullptr;             // in: the gradient; out: the new weights
  size_t count = 0;                  // of each
};

// The steps below write w for the old weight, g for the gradient and `name` for a state. All begin
// with g = g * scale, then g = g + decay * w (but LambStep, which decays later).

// w = w - learning_rate * g.
struct SgdStep {
  float learning_rate = 0;
  float scale = 1;
  float decay = 0;
};

// State v. v = momentum * v + g; w = w - learning_rate * v, or with nesterov
// w = w - learning_rate * (g + momentum * v).
struct MomentumStep {
  float learning_rate = 0;
  float momentum = 0;
  bool nesterov = false;
  float scale = 1;
  float decay = 0;
};

// State s. s = s + g * g; w = w - (learning_rate * g) / (sqrt(s) + epsilon).
struct AdagradStep {
  float learning_rate = 0;
  float epsilon = 0;
  float scale = 1;
  float decay = 0;
};

// States s, then a when centered, then v when momentum is not 0.
//   s = alpha * s + (one_minus_alpha * g) * g
//   a = alpha * a + one_minus_alpha * g
//   root = sqrt(s) + epsilon, centered: sqrt(max(s - a * a, 0)) + epsilon
//   w = w - (learning_rate * g) / root, or with momentum
//   v = momentum * v + g / root; w = w - learning_rate * v
// The maximum matters only where rounding makes the difference negative, whose root is not a
// number.
struct RmsPropStep {
  float learning_rate = 0;
  float alpha = 0;
  float one_minus_alpha = 0;
  float epsilon = 0;
  float momentum = 0;
  bool centered = false;
  float scale = 1;
  float decay = 0;
};

// Adam and AdamW. States m, v.
//   m = beta1 * m + one_minus_beta1 * g
//   v = beta2 * v + (one_minus_beta2 * g) * g
//   w = w * shrink - (step_size * m) / (sqrt(v) * root_correction + epsilon)
struct AdamStep {
  float step_size = 0;  // learning rate / (1 - beta1^t)
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float root_correction = 0;  // 1 / sqrt(1 - beta2^t)
  float epsilon = 0;
  float shrink = 1;  // 1 - learning rate * decay, of AdamW
  float scale = 1;
  float decay = 0;  // of Adam
};

// The direction of LAMB. States m, v as AdamStep; then instead of the new weights
//   next = (m * correction1) / (sqrt(v * correction2) + epsilon) + decay * w
struct LambStep {
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float correction1 = 0;  // 1 / (1 - beta1^t)
  float correction2 = 0;  // 1 / (1 - beta2^t)
  float epsilon = 0;
  float scale = 1;
  float decay = 0;
};

// A running average: w = keep * w + rate * g. The gradient is not scaled.
struct AverageStep {
  float keep = 0;  // 1 - rate
  float rate = 0;
};

// Partial sums of a SumOfSquares: element i of the range belongs to number i modulo their count.
using SquareSums = std::array<double, 16>;

// The loops of one instruction set. Counts are in elements.
struct VectorKernels {
  const char* name;

  // out = a + b.
  void (*add)(const uint8_t* a, const uint8_t* b, float* out, size_t count);
  // sum = sum + a.
  void (*add_to)(const uint8_t* a, float* sum, size_t count);
  // out = a / divisor. Returns whether all of `out` is finite.
  bool (*divide)(const uint8_t* a, float divisor, float* out, size_t count);
  // out = (a + b) / divisor. Returns whether all of `out` is finite.
  bool (*add_divide)(const uint8_t* a, const uint8_t* b, float divisor, float* out, size_t count);

  void (*sgd)(const SgdStep& step, const UpdateRun& run);
  void (*momentum)(const MomentumStep& step, const UpdateRun& run);
  void (*adagrad)(const AdagradStep& step, const UpdateRun& run);
  void (*rmsprop)(const RmsPropStep& step, const UpdateRun& run);
  void (*adam)(const AdamStep& step, const UpdateRun& run);
  void (*lamb)(const LambStep& step, const UpdateRun& run);
  void (*average)(const AverageStep& step, const UpdateRun& run);

  // Adds the squares of x, in double (where they are exact), each to its partial sum, in the order
  // of the elements.
  void (*add_squares)(const float* x, size_t count, SquareSums* sums);
};

// Sum of the squares of x in double, in an order that depends on `count` alone: the partial sums of
// add_squares, then sums[i] + sums[i + 8] for i < 8, of these [i] + [i + 4], and so on.
double SumOfSquares(const float* x, size_t count, const VectorKernels& kernels);

// The sets that this machine can run, from the narrowest to the widest; the first one needs nothing
// of the machine.
std::vector<const VectorKernels*> SupportedKernels();

// The widest of them.
const VectorKernels& FastestKernels();

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_VECTOR_KERNELS_H_
