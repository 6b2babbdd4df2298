#ifndef SANGAM_WORKER_RUNTIME_FLOW_EXCHANGE_H_
#define SANGAM_WORKER_RUNTIME_FLOW_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"
#include "worker/core/flow_inbox.h"
#include "worker/core/flow_ledger.h"
#include "worker/core/flow_map.h"
#include "worker/core/flow_tag.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam {

// What carries the frames between this worker and another one. Thread-safe; called with no lock
// held.
class FlowCarrier {
 public:
  virtual ~FlowCarrier() = default;
  // NextFrame may have something.
  virtual void Wake() = 0;
  // Ends the stream with this error. Does not wait.
  virtual void End(const absl::Status& error) = 0;
};

// Everything of a pipeline link but the transport: who waits for what, what was sent and not taken,
// what has come and was not taken, and the memory of it. Lanes call Reserve, Send and Receive; the
// transport moves frames from NextFrame of one worker's exchange to OnFrame of another's. Lost
// streams and frames that come twice change nothing. Thread-safe; shared with streams.
class FlowExchange {
 public:
  // A stream to another worker: one that this worker opens, for the activations that it sends and
  // their gradients, or one that the other worker opens. Two workers may have both.
  struct Side {
    uint32_t worker = 0;
    std::string name;
    std::string address;
    bool opens = false;  // this worker opens the stream
  };
  struct Frame {
    v1::FrameHeader header;
    SlicePayload payload;
  };

  // Takes all the memory that tensors will need.
  // Errors: InvalidArgument    the plan contradicts itself or has no worker of this index
  //         ResourceExhausted  the memory cannot be had
  static absl::StatusOr<std::shared_ptr<FlowExchange>> Create(const PipelineLinkOptions& options);

  uint64_t job() const { return sender_.job(); }
  uint64_t generation() const { return sender_.generation(); }
  // Index in the plan.
  uint32_t worker() const { return map_.worker(); }
  // In the order of their indices below.
  const std::vector<Side>& sides() const { return descriptions_; }
  // "worker w-2 (127.0.0.1:4242)".
  std::string NameOfSide(size_t side) const;

  // For lanes; as PipelineLink. A buffer that Reserve gave and that is not sent takes its credit
  // with it: whoever cannot go on after Reserve stops the link.
  absl::StatusOr<FloatBuffer> Reserve(uint32_t lane, uint32_t boundary, FlowDirection direction,
                                      absl::Duration stall_limit);
  absl::Status Send(uint32_t lane, const FlowTag& tag, FlowShape shape, FloatBuffer elements);
  absl::StatusOr<FloatBuffer> Receive(uint32_t lane, const FlowTag& tag, FlowShape shape,
                                      absl::Duration stall_limit);

  // Each ends the exchange and its streams, when nothing has ended it before: who waits, now or
  // later, learns it. After Fail the other workers learn the reason too.
  void Stop();
  void Fail(const absl::Status& status);
  // Also lets go of all memory.
  void Close();

  // What a failed exchange has failed with; OK otherwise.
  absl::Status failure() const;
  // Waits until the exchange has ended, at most for `timeout`; whether it has.
  bool AwaitEnd(absl::Duration timeout);
  // Waits until the other workers have taken everything, at most until `until` on the steady clock;
  // whether they have. So too when the exchange has ended otherwise.
  bool AwaitTaken(absl::Duration until);
  // Waits until others have ended in order the streams that they have opened; one that is lost
  // comes again.
  bool AwaitStreamsOver(absl::Duration until);
  // Whether a lane waits for the worker of this side, or that worker has not taken all that was
  // sent.
  bool Needs(size_t side) const;

  // Unavailable when a lane waits for a worker that should have opened a stream and there has been
  // none for `limit`; names the worker.
  absl::Status LostPeer(absl::Duration limit);
  // Time without a stream counts from now on.
  void StartClock();

  // ---- For the transport ----

  // The first frame of a stream that this worker opens.
  Frame Hello() const;
  // The side of a worker that has opened a stream.
  // Errors: Aborted             another generation or incarnation
  //         FailedPrecondition  another version of the protocol or schema
  //         InvalidArgument     a worker that has no activations to send here
  absl::StatusOr<size_t> CheckHello(const v1::FrameHeader& header, const v1::StreamHello& hello);

  // A new stream of the side: replaces the one before, and everything untaken is sent again by it,
  // also the last words that something was taken. Returns the stream's number.
  // Errors: Unavailable  the exchange has ended
  //         others       as what it has failed with
  absl::StatusOr<uint64_t> OpenStream(size_t side, const std::shared_ptr<FlowCarrier>& carrier);
  // The stream is over. `in_order`: the worker that had opened it had nothing more to say, and the
  // other one has heard it all; else the stream is lost and will be opened again.
  void CloseStream(size_t side, uint64_t stream, bool in_order);

  // The next frame to send on a stream, if there is one.
  std::optional<Frame> NextFrame(size_t side, uint64_t stream);

  // A frame has come; one call at a time for each stream. Whatever the error, the exchange has
  // failed with it, and the stream must end with it.
  // Errors: InvalidArgument    a frame that must not come, or a tensor that does not fit; names
  // both
  //                            workers, what was found and what was expected
  //         ResourceExhausted  more tensors than credits
  //         Aborted            another generation
  absl::Status OnFrame(size_t side, uint64_t stream, const v1::FrameHeader& header,
                       const SlicePayload& payload);

 private:
  enum class State { kOpen, kStopped, kFailed, kClosed };

  struct SideState {
    SideState(uint32_t credits, uint64_t piece_elements)
        : ledger(credits, piece_elements), inbox(credits) {}
    // Held while a frame of the side is taken in; before the exchange's own.
    Mutex receive_mutex;
    FlowLedger ledger;
    FlowInbox inbox;
    std::vector<FlowTag> answers;  // TAKEN frames that wait to be sent
    size_t next_answer = 0;        // the first of them
    std::weak_ptr<FlowCarrier> carrier;
    uint64_t stream = 0;  // number of the newest
    bool open = false;
    bool over = false;  // the newest has ended in order
    absl::Duration not_open_since = absl::InfiniteDuration();
    uint32_t waiters = 0;  // lanes that wait for the other worker
  };
  using PoolKey = std::pair<uint32_t, FlowDirection>;

  FlowExchange(const PipelineLinkOptions& options, FlowMap map);

  absl::Status MakePools(const PipelineLinkOptions& options);
  std::string NameOf(uint32_t worker) const;
  std::string Way(uint32_t from, uint32_t to) const;
  // Of the tensors that cross the edge.
  size_t SideOf(const FlowEdge& edge) const;
  absl::StatusOr<FlowEdge> EdgeFor(uint32_t lane, uint32_t boundary) const;
  absl::Status CheckSend(uint32_t lane, const FlowTag& tag, FlowShape shape,
                         const FloatBuffer& elements) const;
  absl::Status CheckFrame(size_t side, const v1::FrameHeader& header) const;
  absl::Status CheckPiece(const v1::FrameHeader& header, const FlowEdge& edge,
                          size_t payload_bytes) const;
  absl::StatusOr<FlowTag> TagOf(size_t side, const v1::FrameHeader& header) const;

  absl::StatusOr<FloatBuffer> WaitForRoom(const FlowRoute& route, size_t side,
                                          absl::Duration stall_limit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitForTensor(uint32_t lane, const FlowTag& tag, size_t side,
                             absl::Duration stall_limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Dispatch(size_t side, uint64_t stream, const v1::FrameHeader& header,
                        const SlicePayload& payload);
  absl::Status OnTaken(size_t side, uint64_t stream, const FlowTag& tag);
  absl::Status OnPiece(size_t side, uint64_t stream, const FlowTag& tag,
                       const v1::FrameHeader& header, const SlicePayload& payload);
  void End(State state, const absl::Status& status, std::optional<size_t> except);
  void EndStreams(const absl::Status& status, std::optional<size_t> except);
  // What other workers are told when the exchange has ended without a failure.
  absl::Status EndedStatus() const;
  // All that was taken of late is said again.
  void AnswerAgain(SideState* state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AllTaken() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FlowMap map_;
  const uint64_t max_rows_;
  const uint32_t credits_;
  // Job, generation and source of every frame; what a HELLO says.
  v1::FrameHeader sender_;
  v1::StreamHello hello_;
  std::vector<std::string> names_;        // by worker of the plan, "worker w-2 (host:port)"
  std::vector<std::string> plain_names_;  // "w-2"
  std::vector<uint64_t> incarnations_;
  std::vector<Side> descriptions_;

  mutable Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kOpen;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // The sides, and behind them this worker's traffic with itself. Their members are guarded by
  // mutex_, but for receive_mutex.
  std::vector<std::unique_ptr<SideState>> states_;
  std::map<PoolKey, FloatBufferPool> pools_ ABSL_GUARDED_BY(mutex_);
  // Where lane i waits.
  std::vector<std::unique_ptr<CondVar>> lane_changed_;
  CondVar ended_;
  // A tensor was taken, an answer sent or a stream closed.
  CondVar progressed_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_FLOW_EXCHANGE_H_
