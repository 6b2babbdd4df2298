#include "worker/backend/cpu/pooling.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/kernel.h"
#include "worker/backend/cpu/vector.h"
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

template <typename Lanes>
SANGAM_CPU_INLINE void Load(const float* from, Lanes* lanes) {
  std::memcpy(lanes, from, sizeof(Lanes));
}

template <typename Lanes>
SANGAM_CPU_INLINE void Store(const Lanes& lanes, float* to) {
  std::memcpy(to, &lanes, sizeof(Lanes));
}

// Gives each result's gradient to the first element of its window that is the largest, in an
// image's channels that a `Lanes` (Vector or float) has room for: the pointers are to the first of
// them.
template <typename Lanes>
SANGAM_CPU_INLINE void MaxPoolLanesBackward(const WindowShape& shape, const float* in,
                                            const float* out, const float* output_gradient,
                                            float* input_gradient) {
  Lanes largest;
  Lanes left;  // the gradient, until an element has taken it
  ForEachWindow(
      shape, 1,
      [&largest, &left, out, output_gradient](int64_t result) {
        Load(out + result, &largest);
        Load(output_gradient + result, &left);
      },
      [&largest, &left, in, input_gradient](int64_t /*result*/, int64_t pixel) {
        Lanes x, dx;
        Load(in + pixel, &x);
        Load(input_gradient + pixel, &dx);
        const auto takes = (x == largest) | ((x != x) & (largest != largest));
        Store(dx + (takes ? left : Lanes{}), input_gradient + pixel);
        left = takes ? Lanes{} : left;
      });
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
  std::fill_n(input_gradient, in.size(), 0.0f);
  for (int64_t image = 0; image < in.rows; ++image) {
    const float* x = in.data + image * shape.in.elements();
    float* dx = input_gradient + image * shape.in.elements();
    const float* y = out + image * shape.out().elements();
    const float* dy = output_gradient + image * shape.out().elements();
    int64_t c = 0;
    for (; c + kVectorLanes <= shape.in.channels; c += kVectorLanes) {
      MaxPoolLanesBackward<Vector>(shape, x + c, y + c, dy + c, dx + c);
    }
    for (; c < shape.in.channels; ++c) {
      MaxPoolLanesBackward<float>(shape, x + c, y + c, dy + c, dx + c);
    }
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
