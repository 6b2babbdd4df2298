#ifndef SANGAM_TESTS_TESTING_RECORDING_SINK_H_
#define SANGAM_TESTS_TESTING_RECORDING_SINK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "proto/cluster_service.pb.h"
#include "worker/runtime/report_sink.h"

namespace sangam::testing {

// Keeps every report. Thread-safe.
class RecordingSink : public ReportSink {
 public:
  struct Entry {
    uint64_t job = 0;
    uint64_t generation = 0;
    v1::JobReport report;
  };

  void Report(uint64_t job, uint64_t generation, v1::JobReport report) override {
    MutexLock lock(&mutex_);
    entries_.push_back({job, generation, std::move(report)});
    changed_.SignalAll();
  }

  std::vector<Entry> entries() const {
    MutexLock lock(&mutex_);
    return entries_;
  }

  // Waits until there are `count` reports; false: not within a minute.
  bool Await(size_t count) {
    MutexLock lock(&mutex_);
    for (int tries = 0; tries < 600 && entries_.size() < count; ++tries) {
      changed_.WaitFor(&mutex_, absl::Milliseconds(100));
    }
    return entries_.size() >= count;
  }

  // Waits until the last report is of this kind; false: not within a minute.
  bool AwaitLast(v1::JobReport::KindCase kind) {
    MutexLock lock(&mutex_);
    for (int tries = 0; tries < 600; ++tries) {
      if (!entries_.empty() && entries_.back().report.kind_case() == kind) return true;
      changed_.WaitFor(&mutex_, absl::Milliseconds(100));
    }
    return false;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_RECORDING_SINK_H_
