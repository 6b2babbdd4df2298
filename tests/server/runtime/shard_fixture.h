#ifndef SANGAM_TESTS_SERVER_RUNTIME_SHARD_FIXTURE_H_
#define SANGAM_TESTS_SERVER_RUNTIME_SHARD_FIXTURE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/plan/span.h"
#include "common/tensor/slices.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {

// A small job in phase PREPARE: segments of 25 and 4 elements in pages of 10, `shares` shares,
// momentum, workers "w0" (incarnation 100) and "w1" (101), one server for each name. Page p (over
// all segments: 0, 10, 20 of segment 0, then 0 of segment 1) lies on server p modulo their number.
v1::Assignment SmallJob(uint64_t job, uint32_t shares, const std::vector<std::string>& servers);

// A page of SmallJob.
struct PageName {
  uint32_t segment = 0;
  uint64_t first_element = 0;
  uint64_t element_count = 0;
};
std::vector<PageName> SmallJobPages();

// What worker 0 sends first.
v1::FrameHeader HelloHeader(const v1::Plan& plan);
v1::StreamHello Hello(const v1::Plan& plan, uint32_t worker);

// A subscription to elements [first, first + count) of a segment.
v1::FrameHeader SubscribeHeader(const v1::Plan& plan, uint32_t segment, uint64_t first,
                                uint64_t count, uint64_t step);

v1::FrameHeader GradientHeader(const v1::Plan& plan, const PageName& page, uint64_t step,
                               ShareSpan span, uint64_t samples);

// Remembers what it is sent. Thread-safe.
class RecordingSink : public WeightsSink {
 public:
  struct Sent {
    v1::FrameHeader header;
    std::vector<float> values;
    SlicePayload elements;
  };
  // Runs inside each Send, before it returns.
  using Hook = std::function<void(const PageWeights&)>;

  RecordingSink() = default;
  explicit RecordingSink(Hook hook) : hook_(std::move(hook)) {}

  void Send(const PageWeights& weights) override;

  std::vector<Sent> sent() const;
  // Steps that were sent of one page, in order.
  std::vector<uint64_t> Steps(uint32_t segment, uint64_t first_element) const;
  // The values of the first time that a page was sent at `step` or later; empty when it did not
  // happen within `timeout`.
  std::vector<float> Await(uint32_t segment, uint64_t first_element, uint64_t step,
                           absl::Duration timeout);

 private:
  const Hook hook_;
  mutable Mutex mutex_;
  CondVar arrived_;
  std::vector<Sent> sent_ ABSL_GUARDED_BY(mutex_);
};

std::vector<float> FloatsOf(const SlicePayload& elements);

}  // namespace sangam

#endif  // SANGAM_TESTS_SERVER_RUNTIME_SHARD_FIXTURE_H_
