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

// Turns the pairs of `heads` heads by the angles whose cosines and sines (times `direction`, 1 or
// -1) are given for one head. `out` may be `in`.
SANGAM_CPU_KERNEL
void TurnHeads(const float* in, int64_t heads, int64_t pairs, const float* cosines,
               const float* sines, float direction, float* out) {
  constexpr int kPairs = 8;
  for (int64_t head = 0; head < heads; ++head) {
    const float* x = in + head * 2 * pairs;
    float* y = out + head * 2 * pairs;
    int64_t i = 0;
    for (; i + kPairs <= pairs; i += kPairs) {
      // Apart from `out`, so that the compiler need not look for overlaps.
      float turned[2 * kPairs];
      for (int p = 0; p < kPairs; ++p) {
        const float a = x[2 * (i + p)];
        const float b = x[2 * (i + p) + 1];
        const float cosine = cosines[i + p];
        const float sine = sines[i + p] * direction;
        turned[2 * p] = a * cosine - b * sine;
        turned[2 * p + 1] = a * sine + b * cosine;
      }
      for (int p = 0; p < 2 * kPairs; ++p) y[2 * i + p] = turned[p];
    }
    for (; i < pairs; ++i) {
      const float a = x[2 * i];
      const float b = x[2 * i + 1];
      const float sine = sines[i] * direction;
      y[2 * i] = a * cosines[i] - b * sine;
      y[2 * i + 1] = a * sine + b * cosines[i];
    }
  }
}

}  // namespace cpu_kernels

absl::Status CpuRotary::Prepare(int64_t positions, int64_t pairs, float base) {
  if (positions == positions_ && pairs == pairs_ && base == base_) return absl::OkStatus();
  const auto size = static_cast<size_t>(2 * positions * pairs);
  positions_ = 0;  // the tables hold nothing until they are full
  if (tables_.size() < size) {
    tables_ = FloatBuffer();  // frees first
    ASSIGN_OR_RETURN(tables_, FloatBuffer::Allocate(size));
  }
  const double log_base = cpu_functions::WideLog(base);
  for (int64_t i = 0; i < pairs; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(pairs);
    const double frequency = cpu_functions::WideExp(-part * log_base);
    for (int64_t t = 0; t < positions; ++t) {
      const auto turn = cpu_functions::WideSinCos(static_cast<double>(t) * frequency);
      tables_.data()[t * pairs + i] = static_cast<float>(turn.cos);
      tables_.data()[(positions + t) * pairs + i] = static_cast<float>(turn.sin);
    }
  }
  positions_ = positions;
  pairs_ = pairs;
  base_ = base;
  return absl::OkStatus();
}

absl::Status CpuRotary::Rotate(const Rotation& rotation, ConstMatrix in, float* out) {
  const int64_t width = in.cols / 3;
  const int64_t pairs = width / rotation.heads / 2;
  RETURN_IF_ERROR(Prepare(rotation.positions, pairs, rotation.base));
  const float direction = rotation.backward ? -1.0f : 1.0f;
  for (int64_t row = 0; row < in.rows; ++row) {
    const float* cosines = tables_.data() + row % rotation.positions * pairs;
    const float* sines = cosines + rotation.positions * pairs;
    const float* x = in.data + row * in.cols;
    float* y = out + row * in.cols;
    // Queries and keys.
    cpu_kernels::TurnHeads(x, 2 * rotation.heads, pairs, cosines, sines, direction, y);
    if (x != y) std::copy_n(x + 2 * width, width, y + 2 * width);
  }
  return absl::OkStatus();
}

}  // namespace sangam
