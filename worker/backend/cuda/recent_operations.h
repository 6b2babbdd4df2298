#ifndef SANGAM_WORKER_BACKEND_CUDA_RECENT_OPERATIONS_H_
#define SANGAM_WORKER_BACKEND_CUDA_RECENT_OPERATIONS_H_

#include <array>
#include <cstdint>
#include <string>

namespace sangam {

// The names of what a lane was last asked for. A device reports a fault when somebody waits for its
// work, long after the operation that caused it: the names say which ones it may have been. Not
// thread-safe.
class RecentOperations {
 public:
  // `name` lives as long as the program.
  void Add(const char* name);

  // How many were added.
  int64_t count() const { return count_; }

  // The first `count` operations are done, without a fault.
  void MarkDone(int64_t count);

  // Those that are not known to be done, in order, "add, gemm"; of many the last ones. Empty when
  // all are done.
  std::string Pending() const;

 private:
  static constexpr int64_t kKept = 8;
  std::array<const char*, kKept> names_ = {};
  int64_t count_ = 0;
  int64_t done_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_RECENT_OPERATIONS_H_
