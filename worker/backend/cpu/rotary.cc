#include "worker/backend/cpu/rotary.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/kernel.h"
#include "worker/backend/cpu/wide_functions.h"
#include "worker/backend/views.h"

namespace sangam {
namespace cpu_kernels {

// Turns the pairs of `heads` heads of `width` columns: out[j] = in[j] * cosines[j] + in[other of
// the pair] * sines[j] * direction. `out` may be `in`.
//
// Both halves of a pair add, and the table holds the sign: where one adds and the other subtracts
// GCC 12 makes one fused instruction of products and sums, also with -ffp-contract=off.
SANGAM_CPU_KERNEL
void TurnHeads(const float* in, int64_t heads, int64_t width, const float* cosines,
               const float* sines, float direction, float* out) {
  constexpr int kChunk = 16;
  for (int64_t head = 0; head < heads; ++head) {
    const float* x = in + head * width;
    float* y = out + head * width;
    int64_t first = 0;
    for (; first + kChunk <= width; first += kChunk) {
      // Apart from `out`, so that the compiler need not look for overlaps.
      float turned[kChunk];
      for (int j = 0; j < kChunk; j += 2) {
        const int64_t at = first + j;
        turned[j] = x[at] * cosines[at] + x[at + 1] * (sines[at] * direction);
        turned[j + 1] = x[at + 1] * cosines[at + 1] + x[at] * (sines[at + 1] * direction);
      }
      for (int j = 0; j < kChunk; ++j) y[first + j] = turned[j];
    }
    for (; first < width; first += 2) {
      const float a = x[first];
      const float b = x[first + 1];
      y[first] = a * cosines[first] + b * (sines[first] * direction);
      y[first + 1] = b * cosines[first + 1] + a * (sines[first + 1] * direction);
    }
  }
}

}  // namespace cpu_kernels

absl::Status CpuRotary::Prepare(int64_t positions, int64_t width, float base) {
  if (positions == positions_ && width == width_ && base == base_) return absl::OkStatus();
  const auto size = static_cast<size_t>(2 * positions * width);
  positions_ = 0;  // the tables hold nothing until they are full
  if (tables_.size() < size) {
    tables_ = FloatBuffer();  // frees first
    ASSIGN_OR_RETURN(tables_, FloatBuffer::Allocate(size));
  }
  const double log_base = cpu_functions::WideLog(base);
  for (int64_t j = 0; j < width; j += 2) {
    const double part = static_cast<double>(j) / static_cast<double>(width);
    const double frequency = cpu_functions::WideExp(-part * log_base);
    for (int64_t t = 0; t < positions; ++t) {
      const auto turn = cpu_functions::WideSinCos(static_cast<double>(t) * frequency);
      float* const cosines = tables_.data() + t * width + j;
      float* const sines = cosines + positions * width;
      cosines[0] = cosines[1] = static_cast<float>(turn.cos);
      sines[1] = static_cast<float>(turn.sin);
      sines[0] = -sines[1];
    }
  }
  positions_ = positions;
  width_ = width;
  base_ = base;
  return absl::OkStatus();
}

absl::Status CpuRotary::Rotate(const Rotation& rotation, ConstMatrix in, float* out) {
  const int64_t width = in.cols / 3;
  const int64_t head_width = width / rotation.heads;
  RETURN_IF_ERROR(Prepare(rotation.positions, head_width, rotation.base));
  const float direction = rotation.backward ? -1.0f : 1.0f;
  for (int64_t row = 0; row < in.rows; ++row) {
    const float* cosines = tables_.data() + row % rotation.positions * head_width;
    const float* sines = cosines + rotation.positions * head_width;
    const float* x = in.data + row * in.cols;
    float* y = out + row * in.cols;
    // Queries and keys.
    cpu_kernels::TurnHeads(x, 2 * rotation.heads, head_width, cosines, sines, direction, y);
    if (x != y) std::copy_n(x + 2 * width, width, y + 2 * width);
  }
  return absl::OkStatus();
}

}  // namespace sangam
