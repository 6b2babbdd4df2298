#include "worker/backend/cpu/windows.h"

#include <algorithm>
#include <cstdint>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/kernel.h"

namespace sangam::cpu_kernels {
namespace {

// Where the window of a pixel lies; goes from pixel to pixel without divisions.
class Place {
 public:
  SANGAM_CPU_INLINE Place(const WindowShape& shape, int64_t pixel)
      : in_(shape.in), window_(shape.window), out_(shape.out()) {
    image_ = pixel / out_.pixels() * in_.elements();
    y_ = pixel / out_.width % out_.height;
    x_ = pixel % out_.width;
  }

  SANGAM_CPU_INLINE void GoOn() {
    if (++x_ < out_.width) return;
    x_ = 0;
    if (++y_ < out_.height) return;
    y_ = 0;
    image_ += in_.elements();
  }

  // Of the window, which may begin outside of the image.
  int64_t top() const { return y_ * window_.stride - window_.padding; }
  int64_t left() const { return x_ * window_.stride - window_.padding; }
  // Where it begins in memory, or would.
  int64_t first() const { return image_ + (top() * in_.width + left()) * in_.channels; }
  bool is_inside() const {
    return top() >= 0 && left() >= 0 && top() + window_.kernel_height <= in_.height &&
           left() + window_.kernel_width <= in_.width;
  }
  // Elements of a row of the window that are inside.
  int64_t begin() const { return std::max<int64_t>(0, -left()) * in_.channels; }
  int64_t end() const { return std::min(window_.kernel_width, in_.width - left()) * in_.channels; }
  bool has_row(int64_t i) const { return top() + i >= 0 && top() + i < in_.height; }

 private:
  const ImageShape in_;
  const Window2d window_;
  const ImageShape out_;
  int64_t image_, y_, x_;
};

// kWidth: elements of a row of the window, if they are so few that loops over them must have a
// known end; else 0.
template <int kWidth>
SANGAM_CPU_INLINE void CopyOut(const WindowShape& shape, const float* images, int64_t first,
                               int64_t count, float* rows) {
  const int64_t width = kWidth > 0 ? kWidth : shape.window.kernel_width * shape.in.channels;
  const int64_t height = shape.window.kernel_height;
  const int64_t stride = shape.in.width * shape.in.channels;
  Place place(shape, first);
  for (int64_t p = 0; p < count; ++p, place.GoOn()) {
    const int64_t at = place.first();
    if (place.is_inside()) {
      for (int64_t i = 0; i < height; ++i, rows += width) {
        const float* x = images + at + i * stride;
        for (int64_t j = 0; j < width; ++j) rows[j] = x[j];
      }
      continue;
    }
    const int64_t begin = place.begin();
    const int64_t end = place.end();
    for (int64_t i = 0; i < height; ++i, rows += width) {
      if (!place.has_row(i)) {
        std::fill_n(rows, width, 0.0f);
        continue;
      }
      std::fill_n(rows, begin, 0.0f);
      std::copy_n(images + (at + i * stride + begin), end - begin, rows + begin);
      std::fill_n(rows + end, width - end, 0.0f);
    }
  }
}

template <int kWidth>
SANGAM_CPU_INLINE void AddBack(const WindowShape& shape, const float* rows, int64_t first,
                               int64_t count, float* images) {
  const int64_t width = kWidth > 0 ? kWidth : shape.window.kernel_width * shape.in.channels;
  const int64_t height = shape.window.kernel_height;
  const int64_t stride = shape.in.width * shape.in.channels;
  Place place(shape, first);
  for (int64_t p = 0; p < count; ++p, place.GoOn()) {
    const int64_t at = place.first();
    if (place.is_inside()) {
      for (int64_t i = 0; i < height; ++i, rows += width) {
        float* x = images + at + i * stride;
        for (int64_t j = 0; j < width; ++j) x[j] += rows[j];
      }
      continue;
    }
    const int64_t begin = place.begin();
    const int64_t end = place.end();
    for (int64_t i = 0; i < height; ++i, rows += width) {
      if (!place.has_row(i)) continue;
      float* x = images + (at + i * stride + begin);
      for (int64_t j = 0; j < end - begin; ++j) x[j] += rows[begin + j];
    }
  }
}

}  // namespace

SANGAM_CPU_KERNEL
void WindowsToRows(const WindowShape& shape, const float* images, int64_t first, int64_t count,
                   float* rows) {
  switch (shape.window.kernel_width * shape.in.channels) {
    case 3:
      return CopyOut<3>(shape, images, first, count, rows);
    case 9:
      return CopyOut<9>(shape, images, first, count, rows);
    default:
      return CopyOut<0>(shape, images, first, count, rows);
  }
}

SANGAM_CPU_KERNEL
void AddRowsToWindows(const WindowShape& shape, const float* rows, int64_t first, int64_t count,
                      float* images) {
  switch (shape.window.kernel_width * shape.in.channels) {
    case 3:
      return AddBack<3>(shape, rows, first, count, images);
    case 9:
      return AddBack<9>(shape, rows, first, count, images);
    default:
      return AddBack<0>(shape, rows, first, count, images);
  }
}

}  // namespace sangam::cpu_kernels
