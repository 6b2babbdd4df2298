#ifndef SANGAM_TESTS_COMMON_RPC_STREAM_HARNESS_H_
#define SANGAM_TESTS_COMMON_RPC_STREAM_HARNESS_H_

#include <grpcpp/server.h>
#include <grpcpp/support/byte_buffer.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/completion_queue_thread.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/stream_handler.h"
#include "common/tensor/slices.h"
#include "proto/parameter_service.grpc.pb.h"

namespace sangam {

// A handler that notes what it is told, for either end of a stream. Waits are bounded.
class NotingHandler : public StreamHandler {
 public:
  // What OnMessage answers to this text; OK to others.
  void RefuseMessage(const std::string& text, const absl::Status& status);
  // What NextMessage gives, in order. The stream must be woken.
  void Queue(const std::string& text) { Queue(text, SlicePayload()); }
  void Queue(const std::string& prefix, SlicePayload payload);

  // False when it does not come within half a minute.
  bool WaitForMessages(size_t count);
  bool WaitForHalfClose();
  bool WaitForOpen();
  // How the stream ended; nothing when it does not end in time.
  std::optional<absl::Status> WaitForEnd();

  std::vector<std::string> messages();
  size_t num_queued();

  // StreamHandler.
  void OnOpened() override;
  absl::Status OnMessage(const grpc::ByteBuffer& message) override;
  std::optional<grpc::ByteBuffer> NextMessage() override;
  void OnHalfClosed() override;
  void OnFinished(const absl::Status& status) override;

 private:
  struct Outgoing {
    std::string prefix;
    SlicePayload payload;
  };

  bool Wait(const std::function<bool()>& condition);

  Mutex mutex_;
  CondVar changed_;
  std::string refused_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> messages_ ABSL_GUARDED_BY(mutex_);
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

// A server of raw PushPull streams, one queue and one thread.
class RawStreamServer {
 public:
  using HandlerFactory =
      std::function<std::shared_ptr<StreamHandler>(const std::shared_ptr<ServerStream>& stream)>;

  explicit RawStreamServer(HandlerFactory make_handler);
  // Cancels what is open.
  ~RawStreamServer();

  std::string address() const;

 private:
  class Acceptor;
  using RawService = v1::ParameterService::WithRawMethod_PushPull<v1::ParameterService::Service>;

  RawService service_;
  ActivityCount acceptors_;
  std::unique_ptr<CompletionQueueThread> thread_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

inline constexpr char kRawMethod[] = "/sangam.v1.ParameterService/PushPull";

}  // namespace sangam

#endif  // SANGAM_TESTS_COMMON_RPC_STREAM_HARNESS_H_
