#include "tests/common/rpc/stream_harness.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/server_stream.h"
#include "common/tensor/slices.h"

namespace sangam {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

}  // namespace

void NotingHandler::RefuseMessage(const std::string& text, const absl::Status& status) {
  MutexLock lock(&mutex_);
  refused_ = text;
  refusal_ = status;
}

void NotingHandler::Queue(const std::string& prefix, SlicePayload payload) {
  MutexLock lock(&mutex_);
  queue_.push_back({prefix, std::move(payload)});
}

bool NotingHandler::Wait(const std::function<bool()>& condition) {
  const absl::Duration until = Clock::Real().Steady() + kPatience;
  MutexLock lock(&mutex_);
  while (!condition()) {
    const absl::Duration left = until - Clock::Real().Steady();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitFor(&mutex_, left);
  }
  return true;
}

bool NotingHandler::WaitForMessages(size_t count) {
  return Wait([this, count]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return messages_.size() >= count; });
}

bool NotingHandler::WaitForHalfClose() {
  return Wait([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return half_closed_; });
}

bool NotingHandler::WaitForOpen() {
  return Wait([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return opened_; });
}

std::optional<absl::Status> NotingHandler::WaitForEnd() {
  Wait([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return end_.has_value(); });
  MutexLock lock(&mutex_);
  return end_;
}

std::vector<std::string> NotingHandler::messages() {
  MutexLock lock(&mutex_);
  return messages_;
}

size_t NotingHandler::num_queued() {
  MutexLock lock(&mutex_);
  return queue_.size();
}

void NotingHandler::OnOpened() {
  MutexLock lock(&mutex_);
  opened_ = true;
  changed_.SignalAll();
}

absl::Status NotingHandler::OnMessage(const grpc::ByteBuffer& message) {
  const SlicePayload payload = FromByteBuffer(message).value();
  std::string text(payload.size(), '\0');
  payload.CopyTo(text.data());
  MutexLock lock(&mutex_);
  SANGAM_CHECK(!end_.has_value());
  messages_.push_back(text);
  changed_.SignalAll();
  return text == refused_ ? refusal_ : absl::OkStatus();
}

std::optional<grpc::ByteBuffer> NotingHandler::NextMessage() {
  MutexLock lock(&mutex_);
  SANGAM_CHECK(!end_.has_value());
  if (queue_.empty()) return std::nullopt;
  const Outgoing next = std::move(queue_.front());
  queue_.pop_front();
  return ToByteBuffer(next.prefix, next.payload);
}

void NotingHandler::OnHalfClosed() {
  MutexLock lock(&mutex_);
  SANGAM_CHECK(!end_.has_value());
  half_closed_ = true;
  changed_.SignalAll();
}

void NotingHandler::OnFinished(const absl::Status& status) {
  MutexLock lock(&mutex_);
  SANGAM_CHECK(!end_.has_value());
  end_ = status;
  changed_.SignalAll();
}

namespace {

// Holds an activity until its stream is over: the queue must not be shut down while a stream may
// still post its last operation.
class CountedHandler final : public StreamHandler {
 public:
  CountedHandler(std::shared_ptr<StreamHandler> inner, ActivityCount* activities)
      : inner_(std::move(inner)), activities_(activities) {
    activities_->Begin();
  }

  void OnOpened() override { inner_->OnOpened(); }
  absl::Status OnMessage(const grpc::ByteBuffer& message) override {
    return inner_->OnMessage(message);
  }
  std::optional<grpc::ByteBuffer> NextMessage() override { return inner_->NextMessage(); }
  void OnHalfClosed() override { inner_->OnHalfClosed(); }
  void OnFinished(const absl::Status& status) override {
    inner_->OnFinished(status);
    activities_->End();
  }

 private:
  const std::shared_ptr<StreamHandler> inner_;
  ActivityCount* const activities_;
};

}  // namespace

class RawStreamServer::Acceptor final : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(HandlerFactory make_handler, ActivityCount* activities, RawService* service,
           grpc::ServerCompletionQueue* queue)
      : make_handler_(std::move(make_handler)),
        activities_(activities),
        service_(service),
        queue_(queue) {}

  void AcceptNext() {
    activities_->Begin();
    stream_ = ServerStream::Create();
    service_->RequestPushPull(stream_->context(), stream_->io(), queue_, queue_,
                              tag_.Arm(shared_from_this()));
  }

 private:
  void OnAccepted(bool ok) {
    const std::shared_ptr<ServerStream> stream = std::move(stream_);
    if (ok) {
      AcceptNext();
      stream->Begin(std::make_shared<CountedHandler>(make_handler_(stream), activities_));
    }
    activities_->End();
  }

  const HandlerFactory make_handler_;
  ActivityCount* const activities_;
  RawService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  std::shared_ptr<ServerStream> stream_;
  OperationTag<Acceptor> tag_{&Acceptor::OnAccepted};
};

RawStreamServer::RawStreamServer(HandlerFactory make_handler) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(&service_);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  grpc::ServerCompletionQueue* const raw_queue = queue.get();
  thread_ = std::make_unique<CompletionQueueThread>(std::move(queue));
  server_ = builder.BuildAndStart();
  SANGAM_CHECK(server_ != nullptr);
  std::make_shared<Acceptor>(std::move(make_handler), &acceptors_, &service_, raw_queue)
      ->AcceptNext();
  thread_->Start();
}

RawStreamServer::~RawStreamServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  SANGAM_CHECK(acceptors_.WaitForNone(kPatience));
  thread_->Shutdown();
}

std::string RawStreamServer::address() const { return absl::StrCat("127.0.0.1:", port_); }

}  // namespace sangam
