#ifndef SANGAM_COMMON_RPC_STREAM_ACCEPTOR_H_
#define SANGAM_COMMON_RPC_STREAM_ACCEPTOR_H_

#include <grpcpp/completion_queue.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/server_stream.h"

namespace sangam {

// Accepts the bidirectional raw calls of one method on one queue, one after the other. Lives until
// the server is shut down. `Call` is a StreamHandler and a ServedCall.
template <typename Call>
class StreamAcceptor final : public std::enable_shared_from_this<StreamAcceptor<Call>> {
 public:
  struct Options {
    // Asks the service for the next call: RequestX(stream->context(), stream->io(), queue, queue,
    // tag).
    std::function<void(ServerStream* stream, grpc::ServerCompletionQueue* queue, void* tag)>
        request;
    std::function<std::shared_ptr<Call>(std::shared_ptr<ServerStream> stream)> make_call;
    CallRegistry* registry = nullptr;
    ActivityCount* activities = nullptr;
  };

  // Accepts calls on `queue` from now on.
  static void Start(const Options& options, grpc::ServerCompletionQueue* queue) {
    std::shared_ptr<StreamAcceptor>(new StreamAcceptor(options, queue))->AcceptNext();
  }

 private:
  StreamAcceptor(const Options& options, grpc::ServerCompletionQueue* queue)
      : options_(options), queue_(queue) {}

  // Holds an activity for each call that it waits for; an accepted call takes it over.
  void AcceptNext() {
    options_.activities->Begin();
    stream_ = ServerStream::Create();
    options_.request(stream_.get(), queue_, tag_.Arm(this->shared_from_this()));
  }

  void OnAccepted(bool ok) {
    const std::shared_ptr<ServerStream> stream = std::move(stream_);
    if (!ok) {  // the server is shut down
      options_.activities->End();
      return;
    }
    AcceptNext();
    const std::shared_ptr<Call> call = options_.make_call(stream);
    const absl::Status admitted = options_.registry->Add(call);
    stream->Begin(call);
    if (!admitted.ok()) call->End(admitted);
  }

  const Options options_;
  grpc::ServerCompletionQueue* const queue_;
  std::shared_ptr<ServerStream> stream_;
  OperationTag<StreamAcceptor> tag_{&StreamAcceptor::OnAccepted};
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_STREAM_ACCEPTOR_H_
