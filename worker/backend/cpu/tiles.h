#ifndef SANGAM_WORKER_BACKEND_CPU_TILES_H_
#define SANGAM_WORKER_BACKEND_CPU_TILES_H_

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernel.h"
#include "worker/backend/cpu/vector.h"

// Small matrix products for kernels that need their order of sums on every instruction set. One
// operand lies in panels: kPanel columns of it side by side, row after row, so that a product walks
// through it from end to end. Every element of a product is one sum over the steps in order.
//
// To be inlined into functions that SANGAM_CPU_KERNEL compiles.
namespace sangam::cpu_kernels {

constexpr int64_t kPanel = 16;
constexpr int kTileRows = 4;

inline int64_t RoundUpToPanel(int64_t size) { return (size + kPanel - 1) / kPanel * kPanel; }

constexpr int kPanelVectors = kPanel / kVectorLanes;

// c[r, :] = sum over s of a[r * a_row + s * a_step] * panel[s, :], or += when `accumulate`, for
// Rows rows of kPanel columns, `c_row` floats apart.
template <int Rows>
SANGAM_CPU_INLINE void MultiplyTile(const float* a, int64_t a_row, int64_t a_step,
                                    const float* panel, int64_t steps, bool accumulate, float* c,
                                    int64_t c_row) {
  Vector sums[Rows][kPanelVectors];
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < kPanelVectors; ++v) {
      sums[r][v] = Vector{};
      if (accumulate) std::memcpy(&sums[r][v], c + r * c_row + v * kVectorLanes, sizeof(Vector));
    }
  }
  for (int64_t s = 0; s < steps; ++s) {
    Vector b[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) {
      std::memcpy(&b[v], panel + s * kPanel + v * kVectorLanes, sizeof(Vector));
    }
    for (int r = 0; r < Rows; ++r) {
      const float x = a[r * a_row + s * a_step];
      for (int v = 0; v < kPanelVectors; ++v) sums[r][v] += x * b[v];
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < kPanelVectors; ++v) {
      std::memcpy(c + r * c_row + v * kVectorLanes, &sums[r][v], sizeof(Vector));
    }
  }
}

// Rows are short and lie far apart, so that the machine does not guess the next ones by itself.
SANGAM_CPU_INLINE void FetchRow(const float* row, int64_t cols) {
  constexpr int64_t kLine = 16;  // 64 bytes
  for (int64_t j = 0; j < cols; j += kLine) __builtin_prefetch(row + j);
}
constexpr int64_t kRowsAhead = 8;

// The columns of `in` ([rows, cols], rows `stride` floats apart) in panels: [cols / kPanel, rows,
// kPanel], the last one filled up with 0.
SANGAM_CPU_INLINE void PackColumns(const float* in, int64_t stride, int64_t rows, int64_t cols,
                                   float* panels) {
  for (int64_t first = 0; first < cols; first += kPanel) {
    const int64_t count = cols - first < kPanel ? cols - first : kPanel;
    for (int64_t r = 0; r < rows; ++r, panels += kPanel) {
      const float* x = in + r * stride + first;
      if (first == 0 && r + kRowsAhead < rows) FetchRow(x + kRowsAhead * stride, cols);
      if (count == kPanel) {
        std::memcpy(panels, x, kPanel * sizeof(float));
        continue;
      }
      for (int64_t j = 0; j < kPanel; ++j) panels[j] = j < count ? x[j] : 0.0f;
    }
  }
}

// The rows of `in` in panels: [rows / kPanel, cols, kPanel], likewise.
SANGAM_CPU_INLINE void PackRows(const float* in, int64_t stride, int64_t rows, int64_t cols,
                                float* panels) {
  for (int64_t first = 0; first < rows; first += kPanel, panels += cols * kPanel) {
    for (int64_t r = 0; r < kPanel; ++r) {
      const float* x = in + (first + r) * stride;
      if (first + r + kRowsAhead < rows) FetchRow(x + kRowsAhead * stride, cols);
      const bool inside = first + r < rows;
      for (int64_t j = 0; j < cols; ++j) panels[j * kPanel + r] = inside ? x[j] : 0.0f;
    }
  }
}

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_TILES_H_
