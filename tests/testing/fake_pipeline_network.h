#ifndef SANGAM_TESTS_TESTING_FAKE_PIPELINE_NETWORK_H_
#define SANGAM_TESTS_TESTING_FAKE_PIPELINE_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "worker/runtime/flow_exchange.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam::testing {

// The workers of one plan connected within a process, without a network: links with everything but
// the transport, and one thread that carries their frames. Thread-safe.
class FakePipelineNetwork {
 public:
  FakePipelineNetwork();
  // All links must have been destroyed.
  ~FakePipelineNetwork();
  FakePipelineNetwork(const FakePipelineNetwork&) = delete;
  FakePipelineNetwork& operator=(const FakePipelineNetwork&) = delete;

  // Makes links by this network, which must outlive them. One for each worker at a time.
  PipelineLinkFactory Factory();

  // The worker's link, when there is one, fails with `status`.
  void Fail(uint32_t worker, const absl::Status& status);

  // Whether the worker has a link that is not closed.
  bool Has(uint32_t worker) const;

  // All streams are lost and opened again; what was not taken is sent again.
  void Cut();

  // Frames that were carried so far.
  uint64_t num_frames() const;

 private:
  class Link;
  class Carrier;

  void Attach(const std::shared_ptr<FlowExchange>& exchange);
  void Detach(const FlowExchange* exchange);
  void Work();
  // Whether a frame was carried.
  bool CarryFrames();
  // From one side of an exchange to the side of another one that it faces.
  bool CarryFrom(FlowExchange* from, size_t side);
  void Wake();

  mutable Mutex mutex_;
  CondVar changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t frames_ ABSL_GUARDED_BY(mutex_) = 0;
  // By worker of the plan.
  std::map<uint32_t, std::shared_ptr<FlowExchange>> exchanges_ ABSL_GUARDED_BY(mutex_);

  // Used by the thread alone: the number of the stream of each exchange and side that both ends
  // have opened.
  std::map<std::pair<const FlowExchange*, size_t>, uint64_t> streams_;
  std::shared_ptr<Carrier> carrier_;
  std::thread thread_;
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_FAKE_PIPELINE_NETWORK_H_
