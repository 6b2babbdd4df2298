#ifndef SANGAM_TESTS_TESTING_COUNTING_DATA_H_
#define SANGAM_TESTS_TESTING_COUNTING_DATA_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/data/dataset.h"

namespace sangam::testing {

// Sample i has the row {i, i + 0.5} and the labels {i mod 7, i mod 5}. Can fail at one sample, and
// can be held up.
class CountingDataset : public Dataset {
 public:
  explicit CountingDataset(uint64_t samples) : samples_(samples) {}

  uint64_t num_samples() const override { return samples_; }
  const std::vector<uint64_t>& sample_shape() const override { return shape_; }
  uint64_t sample_elements() const override { return 2; }
  uint64_t labels_per_sample() const override { return 2; }
  uint32_t num_classes() const override { return 7; }
  uint64_t memory_bytes() const override { return samples_; }
  absl::Status Read(uint64_t sample, float* row, uint32_t* labels) const override {
    ++reads_;
    {
      MutexLock lock(&mutex_);
      while (held_up_) changed_.WaitFor(&mutex_, absl::Seconds(1));
    }
    if (sample >= samples_) return absl::OutOfRangeError(absl::StrCat("sample ", sample));
    if (sample == fails_at_) return absl::DataLossError("sample is gone");
    if (row != nullptr) {
      row[0] = static_cast<float>(sample);
      row[1] = static_cast<float>(sample) + 0.5f;
    }
    if (labels != nullptr) {
      labels[0] = static_cast<uint32_t>(sample % 7);
      labels[1] = static_cast<uint32_t>(sample % 5);
    }
    return absl::OkStatus();
  }

  void HoldUp(bool held_up) {
    MutexLock lock(&mutex_);
    held_up_ = held_up;
    changed_.SignalAll();
  }
  void FailAt(uint64_t sample) { fails_at_ = sample; }
  int reads() const { return reads_; }

 private:
  const uint64_t samples_;
  const std::vector<uint64_t> shape_ = {2};
  uint64_t fails_at_ = UINT64_MAX;
  mutable std::atomic<int> reads_{0};
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool held_up_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_COUNTING_DATA_H_
