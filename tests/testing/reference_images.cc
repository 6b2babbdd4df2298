#include "tests/testing/reference_images.h"

#include <cstddef>
#include <vector>

#include "tests/testing/reference_ops.h"

namespace sangam::testing {
namespace {

// Calls visit(result, pixel, element) for every pixel of every image of `x` that a window covers:
// numbers of the result's pixel, of the pixel, and of the element of the window that lies there.
template <typename Visit>
void ForEachTap(const ReferenceWindow& w, const Values& x, const Visit& visit) {
  const size_t images = x.size() / w.in_elements();
  size_t result = 0;
  for (size_t image = 0; image < images; ++image) {
    for (size_t y = 0; y < w.out_height(); ++y) {
      for (size_t c = 0; c < w.out_width(); ++c, ++result) {
        for (size_t i = 0; i < w.kernel_height; ++i) {
          for (size_t j = 0; j < w.kernel_width; ++j) {
            const size_t row = y * w.stride + i;
            const size_t col = c * w.stride + j;
            if (row < w.padding || row - w.padding >= w.height) continue;
            if (col < w.padding || col - w.padding >= w.width) continue;
            const size_t pixel =
                (image * w.height + row - w.padding) * w.width + col - w.padding;
            visit(result, pixel, i * w.kernel_width + j);
          }
        }
      }
    }
  }
}

size_t Results(const ReferenceWindow& w, const Values& x) {
  return x.size() / w.in_elements() * w.out_elements();
}

}  // namespace

Values Conv2d(const ReferenceWindow& w, const Values& x, const Values& weight,
              const Values& bias) {
  Values y(Results(w, x), 0.0);
  const size_t kernel = w.kernel_height * w.kernel_width;
  ForEachTap(w, x, [&](size_t result, size_t pixel, size_t element) {
    for (size_t o = 0; o < w.out_channels; ++o) {
      for (size_t c = 0; c < w.channels; ++c) {
        y[result * w.out_channels + o] +=
            x[pixel * w.channels + c] * weight[(o * kernel + element) * w.channels + c];
      }
    }
  });
  if (bias.empty()) return y;
  for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i % w.out_channels];
  return y;
}

Conv2dGradients Conv2dBackward(const ReferenceWindow& w, const Values& x, const Values& weight,
                               const Values& dy) {
  Conv2dGradients gradients = {Values(x.size(), 0.0), Values(weight.size(), 0.0),
                               Values(w.out_channels, 0.0)};
  const size_t kernel = w.kernel_height * w.kernel_width;
  ForEachTap(w, x, [&](size_t result, size_t pixel, size_t element) {
    for (size_t o = 0; o < w.out_channels; ++o) {
      const double d = dy[result * w.out_channels + o];
      for (size_t c = 0; c < w.channels; ++c) {
        const size_t of_weight = (o * kernel + element) * w.channels + c;
        gradients.x[pixel * w.channels + c] += d * weight[of_weight];
        gradients.weight[of_weight] += d * x[pixel * w.channels + c];
      }
    }
  });
  for (size_t i = 0; i < dy.size(); ++i) gradients.bias[i % w.out_channels] += dy[i];
  return gradients;
}

namespace {

// The pixel that holds the largest element of each window, per channel; the first one of equals.
std::vector<size_t> Largest(const ReferenceWindow& w, const Values& x) {
  constexpr size_t kNone = static_cast<size_t>(-1);
  std::vector<size_t> pixels(Results(w, x), kNone);
  ForEachTap(w, x, [&](size_t result, size_t pixel, size_t) {
    for (size_t c = 0; c < w.channels; ++c) {
      size_t& largest = pixels[result * w.channels + c];
      if (largest == kNone || x[pixel * w.channels + c] > x[largest * w.channels + c]) {
        largest = pixel;
      }
    }
  });
  return pixels;
}

}  // namespace

Values MaxPool2d(const ReferenceWindow& w, const Values& x) {
  const std::vector<size_t> pixels = Largest(w, x);
  Values y;
  for (size_t i = 0; i < pixels.size(); ++i) {
    y.push_back(x[pixels[i] * w.channels + i % w.channels]);
  }
  return y;
}

Values MaxPool2dBackward(const ReferenceWindow& w, const Values& x, const Values& dy) {
  const std::vector<size_t> pixels = Largest(w, x);
  Values dx(x.size(), 0.0);
  for (size_t i = 0; i < pixels.size(); ++i) {
    dx[pixels[i] * w.channels + i % w.channels] += dy[i];
  }
  return dx;
}

Values AveragePool2d(const ReferenceWindow& w, const Values& x) {
  const auto size = static_cast<double>(w.kernel_height * w.kernel_width);
  Values y(Results(w, x), 0.0);
  ForEachTap(w, x, [&](size_t result, size_t pixel, size_t) {
    for (size_t c = 0; c < w.channels; ++c) {
      y[result * w.channels + c] += x[pixel * w.channels + c] / size;
    }
  });
  return y;
}

Values AveragePool2dBackward(const ReferenceWindow& w, const Values& x, const Values& dy) {
  const auto size = static_cast<double>(w.kernel_height * w.kernel_width);
  Values dx(x.size(), 0.0);
  ForEachTap(w, x, [&](size_t result, size_t pixel, size_t) {
    for (size_t c = 0; c < w.channels; ++c) {
      dx[pixel * w.channels + c] += dy[result * w.channels + c] / size;
    }
  });
  return dx;
}

}  // namespace sangam::testing
