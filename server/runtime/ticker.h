#ifndef SANGAM_SERVER_RUNTIME_TICKER_H_
#define SANGAM_SERVER_RUNTIME_TICKER_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace sangam {

// Calls a function again and again on a thread of its own, as long as the object lives.
class Ticker {
 public:
  // `period`: between the end of one call and the beginning of the next.
  Ticker(absl::Duration period, std::function<void()> tick);
  // Waits for a call that is under way; none comes afterwards.
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  void Run();

  const absl::Duration period_;
  const std::function<void()> tick_;
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_TICKER_H_
