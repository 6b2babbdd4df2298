#ifndef SANGAM_TESTS_TESTING_CUTTING_PROXY_H_
#define SANGAM_TESTS_TESTING_CUTTING_PROXY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace sangam {

// A TCP proxy on 127.0.0.1 that cuts its connections in the middle of whatever passes: each of the
// first `cuts` connections is reset after a random number of bytes (both directions together) below
// `most_bytes`; later ones pass everything.
class CuttingProxy {
 public:
  // `target_port`: on 127.0.0.1.
  CuttingProxy(int target_port, uint64_t seed, int cuts, uint64_t most_bytes);
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  std::string address() const;
  int num_cut() const { return num_cut_; }

 private:
  struct Connection {
    int client = -1;
    int server = -1;
    std::atomic<int64_t> left{0};
    std::atomic<bool> over{false};
  };

  void Accept();
  void Forward(const std::shared_ptr<Connection>& connection, int from, int to);
  void Reset(Connection& connection);

  const int target_port_;
  const int cuts_;
  const uint64_t most_bytes_;
  std::mt19937_64 random_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> num_cut_{0};
  std::thread accept_thread_;
  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_TESTS_TESTING_CUTTING_PROXY_H_
