#ifndef SANGAM_SERVER_RUNTIME_UPDATE_POOL_H_
#define SANGAM_SERVER_RUNTIME_UPDATE_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace sangam {

// Threads that update pages when a decision about all of them has been made, for all jobs of a
// server. Thread-safe.
class UpdatePool {
 public:
  // `threads` >= 1.
  explicit UpdatePool(int threads);
  // Waits for the work that has begun; the rest is dropped.
  ~UpdatePool();
  UpdatePool(const UpdatePool&) = delete;
  UpdatePool& operator=(const UpdatePool&) = delete;

  // Calls work(0) ... work(count - 1) soon, on several threads at the same time and in any order;
  // returns at once. Batches begin in the order of the calls.
  void ForEach(size_t count, std::function<void(size_t)> work);

 private:
  struct Batch {
    std::function<void(size_t)> work;
    size_t count = 0;
    size_t next = 0;  // guarded by the pool's mutex
  };

  void Run();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Batch>> batches_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_UPDATE_POOL_H_
