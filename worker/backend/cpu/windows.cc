#include "worker/backend/cpu/windows.h"

#include <algorithm>
#include <cstdint>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/kernel.h"

namespace sangam::cpu_kernels {
namespace {

// Where one window lies.
struct Place {
  int64_t top, left;   // of the window, which may be outside of the image
  int64_t begin, end;  // kernel columns inside of it
  int64_t image;       // first element of the image
};

SANGAM_CPU_INLINE Place PlaceOf(const WindowShape& shape, const ImageShape& out, int64_t pixel) {
  const Window2d& window = shape.window;
  Place place;
  place.image = pixel / out.pixels() * shape.in.elements();
  place.top = pixel / out.width % out.height * window.stride - window.padding;
  place.left = pixel % out.width * window.stride - window.padding;
  place.begin = std::max<int64_t>(0, -place.left);
  place.end = std::min(window.kernel_width, shape.in.width - place.left);
  return place;
}

}  // namespace

SANGAM_CPU_KERNEL
void WindowsToRows(const WindowShape& shape, const float* images, int64_t first, int64_t count,
                   float* rows) {
  const ImageShape out = shape.out();
  const int64_t channels = shape.in.channels;
  const int64_t width = shape.window.kernel_width * channels;
  for (int64_t p = first; p < first + count; ++p) {
    const Place place = PlaceOf(shape, out, p);
    const int64_t begin = place.begin * channels;
    const int64_t end = place.end * channels;
    for (int64_t i = 0; i < shape.window.kernel_height; ++i, rows += width) {
      const int64_t y = place.top + i;
      if (y < 0 || y >= shape.in.height) {
        std::fill_n(rows, width, 0.0f);
        continue;
      }
      const float* x = images + place.image + (y * shape.in.width + place.left) * channels;
      for (int64_t j = 0; j < begin; ++j) rows[j] = 0.0f;
      for (int64_t j = begin; j < end; ++j) rows[j] = x[j];
      for (int64_t j = end; j < width; ++j) rows[j] = 0.0f;
    }
  }
}

SANGAM_CPU_KERNEL
void AddRowsToWindows(const WindowShape& shape, const float* rows, int64_t first, int64_t count,
                      float* images) {
  const ImageShape out = shape.out();
  const int64_t channels = shape.in.channels;
  const int64_t width = shape.window.kernel_width * channels;
  for (int64_t p = first; p < first + count; ++p) {
    const Place place = PlaceOf(shape, out, p);
    const int64_t begin = place.begin * channels;
    const int64_t end = place.end * channels;
    for (int64_t i = 0; i < shape.window.kernel_height; ++i, rows += width) {
      const int64_t y = place.top + i;
      if (y < 0 || y >= shape.in.height) continue;
      float* x = images + place.image + (y * shape.in.width + place.left) * channels;
      for (int64_t j = begin; j < end; ++j) x[j] += rows[j];
    }
  }
}

}  // namespace sangam::cpu_kernels
