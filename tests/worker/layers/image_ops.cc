#include "tests/worker/layers/image_ops.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "tests/testing/reference_ops.h"

namespace sangam::testing {
namespace {

// Calls visit(output element, window element (row, column), input pixel's first element) for every
// pixel of every window that lies within the image, and returns the shape of the outputs.
template <typename Visit>
Dimensions EachWindow(const Dimensions& in, const Window& window, size_t channels, size_t images,
                      Visit visit) {
  const Dimensions out = {(in[0] + 2 * window.padding - window.kernel_height) / window.stride + 1,
                          (in[1] + 2 * window.padding - window.kernel_width) / window.stride + 1,
                          channels};
  size_t place = 0;
  for (size_t n = 0; n < images; ++n) {
    for (size_t y = 0; y < out[0]; ++y) {
      for (size_t x = 0; x < out[1]; ++x, ++place) {
        for (size_t i = 0; i < window.kernel_height; ++i) {
          for (size_t j = 0; j < window.kernel_width; ++j) {
            // Shifted by the padding, as there is nothing below 0.
            const size_t row = y * window.stride + i;
            const size_t column = x * window.stride + j;
            if (row < window.padding || row - window.padding >= in[0]) continue;
            if (column < window.padding || column - window.padding >= in[1]) continue;
            const size_t pixel =
                (n * in[0] + row - window.padding) * in[1] + column - window.padding;
            visit(place * channels, i * window.kernel_width + j, pixel * in[2]);
          }
        }
      }
    }
  }
  return out;
}

size_t Elements(const Dimensions& shape) { return shape[0] * shape[1] * shape[2]; }

}  // namespace

Values Conv2d(Dimensions in, const Window& window, const Values& x, const Values& weight,
              const Values& bias, size_t out_channels, Dimensions* out) {
  const size_t images = x.size() / Elements(in);
  const size_t filter = window.kernel_height * window.kernel_width * in[2];
  *out = EachWindow(in, window, out_channels, 0, [](size_t, size_t, size_t) {});
  Values y(images * Elements(*out), 0.0);
  for (size_t e = 0; e < y.size() && !bias.empty(); ++e) y[e] = bias[e % out_channels];
  EachWindow(in, window, out_channels, images, [&](size_t to, size_t element, size_t from) {
    for (size_t o = 0; o < out_channels; ++o) {
      for (size_t c = 0; c < in[2]; ++c) {
        y[to + o] += weight[o * filter + element * in[2] + c] * x[from + c];
      }
    }
  });
  return y;
}

Values MaxPool2d(Dimensions in, const Window& window, const Values& x, Dimensions* out) {
  const size_t images = x.size() / Elements(in);
  *out = EachWindow(in, window, in[2], 0, [](size_t, size_t, size_t) {});
  Values y(images * Elements(*out), -std::numeric_limits<double>::infinity());
  EachWindow(in, window, in[2], images, [&](size_t to, size_t, size_t from) {
    for (size_t c = 0; c < in[2]; ++c) y[to + c] = std::max(y[to + c], x[from + c]);
  });
  return y;
}

Values AveragePool2d(Dimensions in, const Window& window, const Values& x, Dimensions* out) {
  const size_t images = x.size() / Elements(in);
  *out = EachWindow(in, window, in[2], 0, [](size_t, size_t, size_t) {});
  Values y(images * Elements(*out), 0.0);
  const auto size = static_cast<double>(window.kernel_height * window.kernel_width);
  EachWindow(in, window, in[2], images, [&](size_t to, size_t, size_t from) {
    for (size_t c = 0; c < in[2]; ++c) y[to + c] += x[from + c] / size;
  });
  return y;
}

Moments ColumnMoments(size_t width, const Values& x) {
  Moments moments = {Values(width, 0.0), Values(width, 0.0)};
  const auto rows = static_cast<double>(x.size() / width);
  for (size_t e = 0; e < x.size(); ++e) moments.mean[e % width] += x[e] / rows;
  for (size_t e = 0; e < x.size(); ++e) {
    const double from_mean = x[e] - moments.mean[e % width];
    moments.variance[e % width] += from_mean * from_mean / rows;
  }
  return moments;
}

Values NormalizeColumns(const Values& x, const Moments& moments, double epsilon, const Values& gain,
                        const Values& bias) {
  const size_t width = gain.size();
  Values y(x.size());
  for (size_t e = 0; e < x.size(); ++e) {
    const size_t j = e % width;
    y[e] = gain[j] * (x[e] - moments.mean[j]) / std::sqrt(moments.variance[j] + epsilon) + bias[j];
  }
  return y;
}

Values LayerNorm(const Values& x, const Values& gain, const Values& bias, double epsilon) {
  const size_t width = gain.size();
  Values y(x.size());
  for (size_t first = 0; first < x.size(); first += width) {
    double mean = 0;
    double variance = 0;
    for (size_t j = 0; j < width; ++j) mean += x[first + j] / static_cast<double>(width);
    for (size_t j = 0; j < width; ++j) {
      variance += (x[first + j] - mean) * (x[first + j] - mean) / static_cast<double>(width);
    }
    for (size_t j = 0; j < width; ++j) {
      y[first + j] = gain[j] * (x[first + j] - mean) / std::sqrt(variance + epsilon) + bias[j];
    }
  }
  return y;
}

}  // namespace sangam::testing
