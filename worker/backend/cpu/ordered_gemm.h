#ifndef SANGAM_WORKER_BACKEND_CPU_ORDERED_GEMM_H_
#define SANGAM_WORKER_BACKEND_CPU_ORDERED_GEMM_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam {

// Matrix products whose every element is summed in one order, whatever the matrix around it: over
// the inner index, by fused multiply-adds from 0, in runs of kRun; the runs are added one after the
// other, and so are stretches of kStretch. So a row of a product has the same bits alone and among
// others, which no library promises (oneDNN's sgemm picks its kernel by the number of rows).
//
// For one lane; not thread-safe, may move from thread to thread. AVX2; with one thread as fast as
// oneDNN there (784-512-256-10: 1.15 against 1.11 ms for 128 rows of the first layer), and faster
// with few rows (16 at a time: 1.14 against 1.39 ms), because it never copies the weights that it
// multiplies few rows with.
class OrderedGemm {
 public:
  static constexpr int64_t kRun = 256;
  static constexpr int64_t kStretch = 2048;

  // Whether this machine has the instructions. All other calls need them.
  static bool Available();

  // c = op(a) op(b), or +=; the epilogue is left to the caller. Tells arguments.rows_done where it
  // goes through c row by row, and asks arguments.rows_wanted for all that it reads.
  // REQUIRES: what Backend::Gemm checks.
  absl::Status Multiply(const GemmArguments& arguments);

  // REQUIRES: what Backend::GemmOfTerms checks.
  absl::Status MultiplyTerms(ConstMatrix a, ConstMatrix b, const std::vector<RowTerm>& terms,
                             Matrix c, const RowsDone* rows_done);

 private:
  absl::Status Reserve(int64_t wide, int64_t tall);

  FloatBuffer wide_;  // factors in the order in which they are used
  FloatBuffer tall_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CPU_ORDERED_GEMM_H_
