#include "server/runtime/update_pool.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace sangam {

UpdatePool::UpdatePool(int threads) {
  for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { Run(); });
}

UpdatePool::~UpdatePool() {
  std::deque<std::shared_ptr<Batch>> dropped;  // let go of without the lock
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    dropped.swap(batches_);
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void UpdatePool::ForEach(size_t count, std::function<void(size_t)> work) {
  if (count == 0) return;
  auto batch = std::make_shared<Batch>();
  batch->work = std::move(work);
  batch->count = count;
  MutexLock lock(&mutex_);
  if (stopping_) return;
  batches_.push_back(std::move(batch));
  changed_.SignalAll();
}

void UpdatePool::Run() {
  for (;;) {
    std::shared_ptr<Batch> batch;  // ends without the lock
    size_t index = 0;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && batches_.empty()) changed_.WaitFor(&mutex_, absl::Hours(1));
      if (stopping_) return;
      batch = batches_.front();
      index = batch->next++;
      if (batch->next == batch->count) batches_.pop_front();
    }
    batch->work(index);
  }
}

}  // namespace sangam
