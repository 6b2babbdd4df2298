#ifndef SANGAM_COMMON_METRICS_CALL_COUNTS_H_
#define SANGAM_COMMON_METRICS_CALL_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace sangam {

// The remote calls that a server has answered, by method. Bounded: beyond a number of methods, all
// others are one. Thread-safe.
class CallCounts {
 public:
  static constexpr size_t kMaxMethods = 128;
  // Upper bounds of the times that are counted apart, in seconds; streams last for hours.
  static constexpr std::array<double, 14> kBounds = {
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600};

  struct Method {
    std::map<std::string, uint64_t> codes;  // "OK", "NOT_FOUND"
    // By bound, not cumulative; the last one: above all bounds.
    std::array<uint64_t, kBounds.size() + 1> times = {};
    double seconds = 0;  // of all calls
    uint64_t calls = 0;
  };

  // A call of `method` ("/sangam.v1.JobService/GetJob") ended with `code` (one of gRPC's 17).
  void Add(absl::string_view method, absl::string_view code, absl::Duration took);

  // By method, "sangam.v1.JobService/GetJob"; "other" for those beyond the bound.
  std::map<std::string, Method> Methods() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, Method, std::less<>> methods_ ABSL_GUARDED_BY(mutex_);
};

// As the log, the process has one.
CallCounts& ProcessCalls();

}  // namespace sangam

#endif  // SANGAM_COMMON_METRICS_CALL_COUNTS_H_
