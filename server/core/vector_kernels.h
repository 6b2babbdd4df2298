#ifndef SANGAM_SERVER_CORE_VECTOR_KERNELS_H_
#define SANGAM_SERVER_CORE_VECTOR_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

// The server's inner loops over floats, compiled for several instruction sets.
//
// Every set performs the same IEEE 754 operations on each element in the same order (no fused
// multiply-add, no approximate root or quotient), so the bits do not depend on the machine. Each
// element stands alone, so they do not depend either on where a range begins or ends.
//
// Operands `const uint8_t*` are binary32 of any alignment, as they lie in a received payload. No
// operand may overlap another one.
namespace sangam {

// One step of gradient descent: w = w - learning_rate * g.
struct SgdStep {
  float learning_rate = 0;
};

// One step with momentum: v = momentum * v + g; w = w - learning_rate * v.
struct MomentumStep {
  float learning_rate = 0;
  float momentum = 0;
};

// One step of AdamW (Loshchilov & Hutter 2019, Algorithm 2), in this order of float operations:
//   m = beta1 * m + one_minus_beta1 * g
//   v = beta2 * v + one_minus_beta2 * (g * g)
//   w = w - learning_rate * ((m * correction1) / (sqrt(v * correction2) + epsilon) + decay * w)
struct AdamWStep {
  float learning_rate = 0;
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float correction1 = 0;  // 1 / (1 - beta1^t)
  float correction2 = 0;  // 1 / (1 - beta2^t)
  float epsilon = 0;
  float decay = 0;
};

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

  // Updates. `next` holds the gradient g before and the new weights after; `weights` is w before.
  void (*sgd)(const SgdStep& step, const float* weights, float* next, size_t count);
  void (*momentum)(const MomentumStep& step, const float* weights, float* v, float* next,
                   size_t count);
  void (*adamw)(const AdamWStep& step, const float* weights, float* m, float* v, float* next,
                size_t count);
};

// The sets that this machine can run, from the narrowest to the widest; the first one needs nothing
// of the machine.
std::vector<const VectorKernels*> SupportedKernels();

// The widest of them.
const VectorKernels& FastestKernels();

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_VECTOR_KERNELS_H_
