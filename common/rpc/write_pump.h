#ifndef SANGAM_COMMON_RPC_WRITE_PUMP_H_
#define SANGAM_COMMON_RPC_WRITE_PUMP_H_

#include <grpcpp/support/byte_buffer.h>

#include <optional>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace sangam {

// The sending half of a raw stream. gRPC allows one outstanding Write; the pump posts the next one
// from the completion of the last, so that the stream never idles while a message waits, and posts
// the half's last operation (half-close or status) when no Write is outstanding. Thread-safe.
class WritePump {
 public:
  // What the pump drives. Called with no lock held, on the thread that moved the pump, one call at
  // a time.
  class Port {
   public:
    virtual ~Port() = default;
    virtual std::optional<grpc::ByteBuffer> NextMessage() = 0;
    // Its completion calls OnWritten.
    virtual void PostWrite(const grpc::ByteBuffer& message) = 0;
    // Called once, as the last of all.
    virtual void PostLast() = 0;
  };

  enum class Rest {
    kFlush,  // sends what NextMessage still has
    kDrop,   // asks for no more messages
  };

  // `port` must outlive the pump. Nothing is posted before Open, not even the last operation: gRPC
  // wants a call to have begun before its next operation.
  explicit WritePump(Port* port) : port_(port) {}

  // The call has begun, or could not be begun and was closed. Once.
  void Open();

  // NextMessage may have something.
  void Wake();

  // The outstanding Write has completed. After a failure nothing more is sent; only Close is left.
  void OnWritten(bool ok);

  // PostLast is to follow. A second call can turn kFlush into kDrop. May come before Open.
  void Close(Rest rest);

 private:
  // REQUIRES: the caller has set busy_.
  void Pump();
  bool TakeLast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Port* const port_;
  Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  // A Write is outstanding, or a thread is about to post one.
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  // Wake was called since NextMessage was asked.
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Rest> closing_ ABSL_GUARDED_BY(mutex_);
  bool last_posted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_WRITE_PUMP_H_
