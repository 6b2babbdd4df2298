#include "worker/backend/cpu/pooling.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/kernel.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {
namespace {

// Calls visit(out, in) with the first elements of each window's result and of each pixel that the
// window covers, window after window, row after row within it; begin(out) before each window.
template <typename Begin, typename Visit>
SANGAM_CPU_INLINE void ForEachWindow(const WindowShape& shape, int64_t images, const Begin& begin,
                                     const Visit& visit) {
  const ImageShape& in = shape.in;
  const ImageShape out = shape.out();
  const Window2d& window = shape.window;
  int64_t result = 0;
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t y = 0; y < out.height; ++y) {
      const int64_t top = y * window.stride - window.padding;
      const int64_t first_row = std::max<int64_t>(top, 0);
      const int64_t last_row = std::min(top + window.kernel_height, in.height);
      for (int64_t x = 0; x < out.width; ++x, result += in.channels) {
        const int64_t left = x * window.stride - window.padding;
        const int64_t first_col = std::max<int64_t>(left, 0);
        const int64_t last_col = std::min(left + window.kernel_width, in.width);
        begin(result);
        for (int64_t i = first_row; i < last_row; ++i) {
          for (int64_t j = first_col; j < last_col; ++j) {
            visit(result, ((image * in.height + i) * in.width + j) * in.channels);
          }
        }
      }
    }
  }
}

}  // namespace

SANGAM_CPU_KERNEL
void MaxPool2d(const WindowShape& shape, ConstMatrix in, float* out) {
  const int64_t channels = shape.in.channels;
  const float* data = in.data;
  ForEachWindow(
      shape, in.rows,
      [=](int64_t result) {
        std::fill_n(out + result, channels, -std::numeric_limits<float>::infinity());
      },
      [=](int64_t result, int64_t pixel) {
        float* y = out + result;
        const float* x = data + pixel;
        for (int64_t c = 0; c < channels; ++c) y[c] = x[c] <= y[c] || y[c] != y[c] ? y[c] : x[c];
      });
}

SANGAM_CPU_KERNEL
void MaxPool2dBackward(const WindowShape& shape, ConstMatrix in, const float* out,
                       const float* output_gradient, float* input_gradient) {
  // Channels whose first largest element is looked for side by side.
  constexpr int64_t kBlock = 64;
  const int64_t channels = shape.in.channels;
  const float* data = in.data;
  std::fill_n(input_gradient, in.size(), 0.0f);
  float left[kBlock];  // the gradient, until an element has taken it
  for (int64_t block = 0; block < channels; block += kBlock) {
    const int64_t count = std::min(kBlock, channels - block);
    ForEachWindow(
        shape, in.rows,
        [&left, output_gradient, block, count](int64_t result) {
          for (int64_t c = 0; c < count; ++c) left[c] = output_gradient[result + block + c];
        },
        [&left, out, data, input_gradient, block, count](int64_t result, int64_t pixel) {
          const float* y = out + result + block;
          const float* x = data + pixel + block;
          float* dx = input_gradient + pixel + block;
          for (int64_t c = 0; c < count; ++c) {
            const bool takes = x[c] == y[c] || (x[c] != x[c] && y[c] != y[c]);
            dx[c] += takes ? left[c] : 0.0f;
            left[c] = takes ? 0.0f : left[c];
          }
        });
  }
}

SANGAM_CPU_KERNEL
void AveragePool2d(const WindowShape& shape, ConstMatrix in, float* out) {
  const int64_t channels = shape.in.channels;
  const float* data = in.data;
  ForEachWindow(
      shape, in.rows, [=](int64_t result) { std::fill_n(out + result, channels, 0.0f); },
      [=](int64_t result, int64_t pixel) {
        float* y = out + result;
        const float* x = data + pixel;
        for (int64_t c = 0; c < channels; ++c) y[c] += x[c];
      });
  const auto size = static_cast<float>(shape.window.kernel_height * shape.window.kernel_width);
  const int64_t elements = in.rows * shape.out().elements();
  for (int64_t i = 0; i < elements; ++i) out[i] /= size;
}

SANGAM_CPU_KERNEL
void AveragePool2dBackward(const WindowShape& shape, ConstMatrix output_gradient,
                           float* input_gradient) {
  const int64_t channels = shape.in.channels;
  const float* dy = output_gradient.data;
  const auto size = static_cast<float>(shape.window.kernel_height * shape.window.kernel_width);
  std::fill_n(input_gradient, output_gradient.rows * shape.in.elements(), 0.0f);
  ForEachWindow(
      shape, output_gradient.rows, [](int64_t) {},
      [=](int64_t result, int64_t pixel) {
        const float* d = dy + result;
        float* dx = input_gradient + pixel;
        for (int64_t c = 0; c < channels; ++c) dx[c] += d[c] / size;
      });
}

}  // namespace sangam::cpu_kernels
