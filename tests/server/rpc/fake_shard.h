#ifndef SANGAM_TESTS_SERVER_RPC_FAKE_SHARD_H_
#define SANGAM_TESTS_SERVER_RPC_FAKE_SHARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {

// A shard that sends what the test publishes and notes what comes. Accepts everything. Waits are
// bounded.
class FakeShard : public ParameterShard {
 public:
  const std::string& owner() const override { return owner_; }
  absl::Status CheckHello(const v1::FrameHeader& header, const v1::StreamHello& hello) override;
  absl::Status Subscribe(const v1::FrameHeader& header,
                         const std::shared_ptr<WeightsSink>& sink) override;
  void Unsubscribe(const WeightsSink* sink) override;
  absl::Status AddGradient(const v1::FrameHeader& header, const SlicePayload& elements) override;
  std::vector<PageWeights> ReadWeights() override;
  absl::StatusOr<std::vector<PageWeights>> ReadState(uint64_t step) override;
  void ReleaseState(uint64_t step) override;

  // Before it is used.
  void SetOwner(const std::string& owner) { owner_ = owner; }
  // Sends the weights to all subscribers.
  void Publish(const PageWeights& weights);
  // What ReadWeights answers, and ReadState.
  void SetPages(std::vector<PageWeights> pages);
  // There is a snapshot of this step, until it is released.
  void SetStateStep(uint64_t step);
  bool WaitForRelease();

  // Until there are exactly `count` subscribers; false: not in time.
  bool WaitForSubscribers(size_t count);
  bool WaitForGradients(size_t count);
  // Until ReadWeights was called so often.
  bool WaitForReads(size_t count);
  std::vector<SlicePayload> gradients();
  std::vector<std::shared_ptr<WeightsSink>> subscribers();

 private:
  bool Wait(const std::function<bool()>& condition);

  std::string owner_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::shared_ptr<WeightsSink>> sinks_ ABSL_GUARDED_BY(mutex_);
  std::vector<SlicePayload> gradients_ ABSL_GUARDED_BY(mutex_);
  std::vector<PageWeights> pages_ ABSL_GUARDED_BY(mutex_);
  uint64_t state_step_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_reads_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Weights of a page that begins at `first_element` and consists of all of `buffer`.
PageWeights MakePage(uint32_t segment, uint64_t first_element, uint64_t step,
                     const FloatBuffer& buffer);

// A page longer than the window of a connection on which nothing was read yet: while the client
// does not begin to read, nothing behind it is sent.
PageWeights MakeCork();

}  // namespace sangam

#endif  // SANGAM_TESTS_SERVER_RPC_FAKE_SHARD_H_
