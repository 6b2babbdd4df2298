#ifndef SANGAM_COMMON_RPC_ACCEPTED_STREAM_H_
#define SANGAM_COMMON_RPC_ACCEPTED_STREAM_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/stream_handler.h"
#include "common/security/caller.h"

namespace sangam {

// What the streams of one method share; outlives them.
struct AcceptedStreamOptions {
  CallRegistry* registry = nullptr;
  // Holds one activity for each stream, from before it begins until it has finished.
  ActivityCount* activities = nullptr;
  // From the beginning of a stream to its first message.
  absl::Duration hello_deadline = absl::Seconds(10);
  // How long a stream that is to end waits for a client that does not read; then it is broken off.
  absl::Duration end_grace = absl::Seconds(5);
  RefusalCounts* counts = nullptr;  // may be nullptr
};

// The life of one stream that a service has accepted: it opens with the client's first message, and
// ends with OK once the client has half-closed and has been sent what waits, or with the first
// error: of a message, of the registry (another stream takes its place, the service stops), of a
// deadline. That ends this stream and nothing else. What the messages mean is the derived class's.
//
// Thread-safe; shared between its ServerStream, the registry and whoever sends to it.
class AcceptedStream : public StreamHandler, public ServedCall {
 public:
  // StreamHandler.
  absl::Status OnMessage(const grpc::ByteBuffer& message) final;
  void OnHalfClosed() override;
  void OnFinished(const absl::Status& status) final;

  // ServedCall.
  void End(const absl::Status& error) override;
  void Check(absl::Duration now) final;

 protected:
  // How messages and log lines speak of the stream.
  struct Words {
    const char* stream;         // "feed": "feed ended"
    const char* message;        // "frame": "frame 3 of the stream"
    const char* first_message;  // "HELLO": "found no HELLO"
    const char* method;         // "/sangam.v1.DataService/Feed"
  };

  // `options` must outlive the object. `stream` has been accepted.
  AcceptedStream(const AcceptedStreamOptions* options, const Words& words,
                 std::shared_ptr<ServerStream> stream);

  // For the derived class, which also guards what waits to be sent with it.
  mutable Mutex mutex_;

  // On the queue's thread, one at a time. `first`: the stream is not open yet; a message that opens
  // it calls Open. An error ends the stream.
  virtual absl::Status OnNext(const grpc::ByteBuffer& message, bool first) = 0;
  // Forgets what waits to be sent. Called without the lock, when the stream is_open no more:
  // whoever looks at that and adds to what waits without letting go of the lock leaves nothing
  // behind.
  virtual void DropWaiting() {}
  // Why an open stream must end now, when nothing has moved for `idle`.
  virtual absl::Status Fault(absl::Duration idle) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The stream has finished with `status`: nobody is to send to it any more. On the queue's thread.
  virtual void Leave(const absl::Status& status);
  // "key=value key=value": what the log says of a stream that is over. On the queue's thread.
  virtual std::string LogFields() const = 0;

  // Who opened the stream.
  const Caller& caller() const { return caller_; }

  // Without effect when the stream has ended meanwhile.
  void Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_open() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return phase_ == Phase::kOpen; }
  // To be finished: nothing goes out any more.
  bool has_ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return phase_ == Phase::kEnded; }
  // The client is seen to be alive: it lets a message through, or had nothing to read until now.
  void NoteProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { ++progress_; }
  // The client's messages until now. On the queue's thread.
  uint64_t num_messages() const { return num_messages_; }

  // NextMessage may have something. Without effect when the stream has finished.
  void WakeStream();
  // Nothing goes in or out from now on.
  void SetEnded();

 private:
  enum class Phase {
    kNew,  // no message yet
    kOpen,
    kHalfClosed,  // sends what waits, takes no more
    kEnded,       // to be finished
  };

  std::shared_ptr<ServerStream> stream() const;

  const AcceptedStreamOptions& options_;
  const Words words_;
  const absl::Duration begin_;
  const Caller caller_;
  uint64_t num_messages_ = 0;

  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kNew;
  // Dropped when the stream has finished.
  std::shared_ptr<ServerStream> stream_ ABSL_GUARDED_BY(mutex_);
  // Changes whenever the client is seen to be alive. What Check saw of it last, and when.
  uint64_t progress_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t seen_progress_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Duration> seen_at_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_ACCEPTED_STREAM_H_
