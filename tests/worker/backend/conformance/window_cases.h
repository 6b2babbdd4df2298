#ifndef SANGAM_TESTS_WORKER_BACKEND_CONFORMANCE_WINDOW_CASES_H_
#define SANGAM_TESTS_WORKER_BACKEND_CONFORMANCE_WINDOW_CASES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/reference_images.h"
#include "worker/backend/backend.h"

namespace sangam::testing {

// A window over some images, for the cases of operations on images.
struct WindowCase {
  int64_t images;
  WindowShape shape;

  int64_t in_elements() const { return images * shape.in.elements(); }
  int64_t out_elements() const { return images * shape.out().elements(); }

  ReferenceWindow reference() const {
    const auto size = [](int64_t value) { return static_cast<size_t>(value); };
    return {size(shape.in.height),          size(shape.in.width),
            size(shape.in.channels),        size(shape.window.kernel_height),
            size(shape.window.kernel_width), size(shape.window.stride),
            size(shape.window.padding),     size(shape.out_channels)};
  }

  std::string name() const {
    return absl::StrCat(images, "_", shape.in.height, "x", shape.in.width, "x", shape.in.channels,
                        "_", shape.window.kernel_height, "x", shape.window.kernel_width, "s",
                        shape.window.stride, "p", shape.window.padding, "_", shape.out_channels);
  }
};

// No, one, odd and even sizes, around the widths of vectors; all strides and paddings that differ.
inline std::vector<WindowCase> WindowCases() {
  return {
      {0, {{5, 5, 3}, {3, 3, 1, 1}, 4}},    {1, {{1, 1, 1}, {1, 1, 1, 0}, 1}},
      {2, {{3, 3, 1}, {3, 3, 1, 0}, 1}},    {3, {{5, 4, 2}, {3, 2, 1, 1}, 3}},
      {2, {{7, 5, 3}, {3, 3, 2, 1}, 5}},    {2, {{7, 7, 5}, {2, 2, 2, 0}, 7}},
      {1, {{8, 9, 4}, {5, 5, 3, 2}, 9}},    {3, {{6, 6, 17}, {1, 1, 1, 0}, 13}},
      {2, {{9, 9, 8}, {1, 1, 2, 0}, 16}},   {5, {{28, 28, 1}, {3, 3, 1, 1}, 32}},
      {4, {{14, 14, 32}, {3, 3, 1, 1}, 33}}, {2, {{8, 8, 65}, {3, 3, 1, 1}, 64}},
      {2, {{12, 10, 3}, {7, 7, 2, 3}, 16}}, {1, {{4, 4, 3}, {4, 4, 1, 3}, 2}},
      {1, {{70, 70, 16}, {3, 3, 1, 1}, 8}},
  };
}

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_BACKEND_CONFORMANCE_WINDOW_CASES_H_
