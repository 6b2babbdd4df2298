#ifndef SANGAM_WORKER_BACKEND_CPU_ROTARY_H_
#define SANGAM_WORKER_BACKEND_CPU_ROTARY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

namespace sangam {

// Rotary positions (Su et al. 2021, RoFormer) of one lane. Keeps the sines and cosines of the last
// shape that it saw: 2 * positions * head width floats. Not thread-safe.
class CpuRotary {
 public:
  // As Backend::Rotate; arguments are checked there.
  absl::Status Rotate(const Rotation& rotation, ConstMatrix in, float* out);

 private:
  // Fills the tables for heads of `width` columns.
  absl::Status Prepare(int64_t positions, int64_t width, float base);

  int64_t positions_ = 0;
  int64_t width_ = 0;
  float base_ = 0;
  FloatBuffer tables_;  // [positions, width] cosines, each twice, then sines, each as -s and s
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CPU_ROTARY_H_
