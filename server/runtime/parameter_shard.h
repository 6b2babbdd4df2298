#ifndef SANGAM_SERVER_RUNTIME_PARAMETER_SHARD_H_
#define SANGAM_SERVER_RUNTIME_PARAMETER_SHARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"

namespace sangam {

// The weights of one page at one step, as they go out: slices of the page's own memory, which stays
// alive and unchanged as long as somebody holds `elements`.
struct PageWeights {
  v1::FrameHeader header;  // complete: kind WEIGHTS or STATE, encoding FP32
  SlicePayload elements;
};

// Of the optimizer, for each page.
inline constexpr uint64_t kMaxStateArrays = 3;

// Takes header and payload of one frame of kind STATE.
using TakeStatePage = std::function<absl::Status(const v1::FrameHeader&, absl::string_view)>;

// Reads what the pages of this server are to begin with, of a job that goes on from a checkpoint:
// every page once, in any order.
// Errors: as ClusterService.ReadCheckpoint and `page`
using CheckpointReader =
    std::function<absl::Status(const v1::Assignment&, const TakeStatePage& page)>;

// Where the weights that a worker subscribed to go: one stream. Send never blocks, may be called on
// any thread, and is called with no lock of the shard held.
class WeightsSink {
 public:
  virtual ~WeightsSink() = default;
  virtual void Send(const PageWeights& weights) = 0;
};

// The pages of one job on this server, and who subscribes to them. Thread-safe: different pages are
// worked on in parallel.
class ParameterShard {
 public:
  virtual ~ParameterShard() = default;

  // Of the job: who may read the weights.
  virtual const std::string& owner() const = 0;

  // Checks the beginning of a worker's stream: job, generation, protocol version, schema, worker.
  // Errors: see ParameterService.PushPull
  virtual absl::Status CheckHello(const v1::FrameHeader& header, const v1::StreamHello& hello) = 0;

  // Sends the weights of every page of this server in the frame's range to `sink`, now when the
  // page's newest step is at least the frame's, and after each update from then on. Subscribing
  // again with the same sink only adds pages. (Shared, because an update in flight may outlive the
  // stream.)
  // Errors: see ParameterService.PushPull
  virtual absl::Status Subscribe(const v1::FrameHeader& header,
                                 const std::shared_ptr<WeightsSink>& sink) = 0;

  // No update that begins later is sent to `sink`.
  virtual void Unsubscribe(const WeightsSink* sink) = 0;

  // Adds one gradient frame: parks its slices and, when the page's tree is complete, merges,
  // updates and sends the new weights to the subscribers, all on the calling thread.
  // Errors: see ParameterService.PushPull
  virtual absl::Status AddGradient(const v1::FrameHeader& header, const SlicePayload& elements) = 0;

  // The newest weights of every page, for readers. Copies nothing.
  virtual std::vector<PageWeights> ReadWeights() = 0;

  // Weights and optimizer state of every page at `step`, frames of kind STATE. Copies nothing.
  // Errors: NotFound  there is no complete snapshot of this step
  virtual absl::StatusOr<std::vector<PageWeights>> ReadState(uint64_t step) = 0;
  // They have been read: the snapshot is let go.
  virtual void ReleaseState(uint64_t step) = 0;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_PARAMETER_SHARD_H_
