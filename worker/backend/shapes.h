#ifndef SANGAM_WORKER_BACKEND_SHAPES_H_
#define SANGAM_WORKER_BACKEND_SHAPES_H_

#include <cstdint>

// What operations of a backend are told besides their matrices. Plain: kernels of every kind read
// it.
namespace sangam {

// What a product does to each row before it is written: add `bias`, then take max(., 0).
enum class Epilogue { kNone, kBias, kBiasRelu };

// How a sum over the rows of a matrix is bracketed, in postfix notation: the sum over the next
// `rows` rows (0 of them: it is 0), then `additions` times the two newest sums are added, the older
// one being the left one. At the end one sum is left.
struct RowTerm {
  int64_t rows = 0;
  uint32_t additions = 0;
};
// Sums that may wait at once: enough for any tree over 2^32 terms.
inline constexpr uint32_t kMaxRowTermDepth = 34;

// relu(x) = max(x, 0). gelu(x) = x Phi(x) with the exact normal distribution function (Hendrycks &
// Gimpel 2016). tanh(x). sigmoid(x) = 1 / (1 + exp(-x)).
enum class Activation { kRelu, kGelu, kTanh, kSigmoid };

// Images in a matrix: row r is image r, [height, width, channels] row-major.
struct ImageShape {
  int64_t height = 1;
  int64_t width = 1;
  int64_t channels = 1;

  int64_t pixels() const { return height * width; }
  int64_t elements() const { return height * width * channels; }
};

// Where a window goes over an image: out position (y, x) covers the rows y * stride - padding + i,
// i < kernel_height, and columns alike. padding < kernel, kernel <= padded image.
struct Window2d {
  int64_t kernel_height = 1;
  int64_t kernel_width = 1;
  int64_t stride = 1;
  int64_t padding = 0;
};

// A convolution or, with out_channels == in.channels, a pooling.
struct WindowShape {
  ImageShape in;
  Window2d window;
  int64_t out_channels = 1;

  ImageShape out() const {
    return {(in.height + 2 * window.padding - window.kernel_height) / window.stride + 1,
            (in.width + 2 * window.padding - window.kernel_width) / window.stride + 1,
            out_channels};
  }
};

// Where dropout's random numbers lie: element e of row r is kept when
//   ToUnitFloat(RandomStream(seed, kDropout, step, layer << 32 | first_position + r).At(e)) >=
//   rate.
// REQUIRES: first_position + rows <= 2^32.
struct DropoutAddress {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t layer = 0;
  uint64_t first_position = 0;
};

// Sequences in a matrix: row r is position r % positions of sequence r / positions.
struct AttentionShape {
  int64_t positions = 1;
  int64_t heads = 1;
};

// How Rotate turns.
struct Rotation {
  int64_t positions = 1;  // as in AttentionShape
  int64_t heads = 1;
  float base = 10000;     // at least 1
  bool backward = false;  // by the negative angle: the gradient's way back
};

// Sums over the rows of one batch.
struct ClassificationSums {
  double loss = 0;       // in double, row after row
  uint64_t correct = 0;  // rows whose largest element (the first of equals) is the label
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_SHAPES_H_
