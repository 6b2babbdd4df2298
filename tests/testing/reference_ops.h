#ifndef SANGAM_TESTS_TESTING_REFERENCE_OPS_H_
#define SANGAM_TESTS_TESTING_REFERENCE_OPS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace sangam::testing {

// What the layers compute, as plain loops in double precision, to compare with. Matrices are
// row-major vectors. Nothing here is shared with the product but the generator of random numbers.
using Values = std::vector<double>;

struct LinearShape {
  size_t rows, in, out;
};

// y = x W^T + b. x: [rows, in]; w: [out, in]; b: [out], or empty for none.
Values LinearForward(const LinearShape& shape, const Values& x, const Values& w, const Values& b);

struct LinearGradients {
  Values x, w, b;
};
LinearGradients LinearBackward(const LinearShape& shape, const Values& x, const Values& w,
                               const Values& dy);

// max(x, 0). Backward takes x, here and below.
Values Relu(const Values& x);
Values ReluBackward(const Values& x, const Values& dy);

// x Phi(x), Phi the standard normal distribution function.
Values Gelu(const Values& x);
Values GeluBackward(const Values& x, const Values& dy);

Values Tanh(const Values& x);
Values TanhBackward(const Values& x, const Values& dy);

// Factor of each element of [rows, cols]: 0 where dropped, else 1 / (1 - rate). Row r is the sample
// at first_position + r of the batch of `step`; `layer` is the layer's number within the model.
struct DropoutPlace {
  uint64_t seed, step;
  uint32_t layer;
  uint64_t first_position;
};
Values DropoutFactors(const DropoutPlace& place, double rate, size_t rows, size_t cols);

// Elementwise product.
Values Times(const Values& x, const Values& y);

struct ReferenceLoss {
  double loss = 0;       // sum over rows
  uint64_t correct = 0;  // rows whose largest element, the first of equals, is the label
  Values gradient;       // of the sum
};
ReferenceLoss SoftmaxCrossEntropy(const Values& logits, const std::vector<uint32_t>& labels,
                                  size_t classes);

// Rows of `cols` numbers, each divided by the root of its mean square (plus epsilon) and scaled by
// `gain`.
struct RmsNormValues {
  Values y, inverse_rms;
};
RmsNormValues RmsNorm(size_t cols, const Values& x, const Values& gain, double epsilon);

struct RmsNormGradients {
  Values x, gain;
};
RmsNormGradients RmsNormBackward(size_t cols, const Values& x, const Values& gain, double epsilon,
                                 const Values& dy);

// Sequences of queries, keys and values: x is [sequences * positions, 3, heads, head_width].
struct SequenceShape {
  size_t sequences, positions, heads, head_width;
};

// Rotary positions on queries and keys; `direction` is 1, or -1 for the way back.
Values Rotate(const SequenceShape& shape, double base, double direction, const Values& x);

struct AttentionValues {
  Values y;        // [sequences * positions, heads, head_width]
  Values log_sum;  // [sequences * positions, heads]
};
AttentionValues CausalAttention(const SequenceShape& shape, const Values& x);
Values CausalAttentionBackward(const SequenceShape& shape, const Values& x, const Values& dy);

// Gradient of `function` at `x` by central differences, element by element.
Values NumericalGradient(const std::function<double(const Values&)>& function, const Values& x);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_REFERENCE_OPS_H_
