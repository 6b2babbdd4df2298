#include "server/rpc/read_weights_call.h"

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"
#include "common/base/status_macros.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/process_credentials.h"
#include "common/rpc/write_pump.h"
#include "common/security/caller.h"
#include "common/tensor/frame_codec.h"
#include "common/tensor/slices.h"
#include "proto/parameter_service.pb.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {
namespace {

template <typename Request>
absl::Status Parse(const grpc::ByteBuffer& message, Request* request) {
  ASSIGN_OR_RETURN(const SlicePayload bytes, FromByteBuffer(message));
  std::string contiguous(bytes.size(), '\0');
  bytes.CopyTo(contiguous.data());
  if (request->ParseFromString(contiguous)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("request: found ", bytes.size(),
                                                 " bytes that do not parse, expected a ",
                                                 request->GetDescriptor()->name()));
}

}  // namespace

void ReadWeightsCall::Begin(const absl::Status& admitted) {
  absl::Status status = admitted;
  if (status.ok()) status = FindPages();
  if (!status.ok()) End(status);
  pump_.Open();
  pump_.Close(WritePump::Rest::kFlush);
}

absl::Status ReadWeightsCall::FindPages() {
  if (what_ == What::kWeights) {
    v1::ReadWeightsRequest request;
    RETURN_IF_ERROR(Parse(request_, &request));
    const absl::StatusOr<std::shared_ptr<ParameterShard>> shard =
        call_context_.find_shard(request.job());
    // To others than those who may see it a job does not exist.
    const Caller caller = CallerIdentity(context_);
    if (!caller.sees_all() && (!shard.ok() || !caller.MayRead((*shard)->owner()))) {
      return absl::NotFoundError(absl::StrCat("job ", request.job(), ": there is none of yours"));
    }
    if (!shard.ok()) return shard.status();
    place_.emplace(call_context_.reads, HolderOf(context_));
    if (!place_->taken()) {
      CountRefusal(call_context_.counts, Refusal::kCalls);
      return absl::ResourceExhaustedError(absl::StrCat(
          "quota: as many calls read weights as may, ", call_context_.reads->most_of_one(),
          " of one caller and ", call_context_.reads->most(), " of all; try later"));
    }
    pages_ = (*shard)->ReadWeights();
    return absl::OkStatus();
  }
  v1::ReadStateRequest request;
  RETURN_IF_ERROR(Parse(request_, &request));
  ASSIGN_OR_RETURN(std::shared_ptr<ParameterShard> shard, call_context_.find_shard(request.job()));
  ASSIGN_OR_RETURN(pages_, shard->ReadState(request.step()));
  state_of_ = std::move(shard);
  step_ = request.step();
  return absl::OkStatus();
}

std::optional<grpc::ByteBuffer> ReadWeightsCall::NextMessage() {
  if (next_page_ == pages_.size()) return std::nullopt;
  // Moved out, so that the page is let go of when it has been sent.
  const PageWeights page = std::move(pages_[next_page_++]);
  return ToByteBuffer(EncodeFramePrefix(page.header, page.elements.size()), page.elements);
}

void ReadWeightsCall::PostWrite(const grpc::ByteBuffer& message) {
  io_.Write(message, write_tag_.Arm(shared_from_this()));
}

void ReadWeightsCall::OnWritten(bool ok) {
  {
    MutexLock lock(&mutex_);
    ++progress_;
  }
  pump_.OnWritten(ok);
}

void ReadWeightsCall::PostLast() {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    status = end_;
  }
  io_.Finish(ToGrpcStatus(status), finish_tag_.Arm(shared_from_this()));
}

void ReadWeightsCall::OnFinish(bool ok) {
  {
    MutexLock lock(&mutex_);
    ok = ok && end_.ok();
  }
  if (ok && state_of_ != nullptr) state_of_->ReleaseState(step_);
  place_.reset();
  call_context_.registry->Remove(this);
  call_context_.activities->End();
}

void ReadWeightsCall::End(const absl::Status& error) {
  {
    MutexLock lock(&mutex_);
    if (end_.ok()) end_ = error;
  }
  pump_.Close(WritePump::Rest::kDrop);
}

void ReadWeightsCall::Check(absl::Duration now) {
  {
    MutexLock lock(&mutex_);
    if (!seen_at_.has_value() || seen_progress_ != progress_) {
      seen_progress_ = progress_;
      seen_at_ = now;
    }
    if (cancelled_ || now - *seen_at_ < call_context_.stall_deadline) return;
    cancelled_ = true;
  }
  CountRefusal(call_context_.counts, Refusal::kStalledCall);
  LogWarning("client does not read, its call is cancelled", "method=%s peer=%s timeout=%s",
             what_ == What::kState ? "ReadState" : "ReadWeights", LogValue(context_.peer()),
             absl::FormatDuration(call_context_.stall_deadline));
  // The status would wait behind the message that the client does not read.
  context_.TryCancel();
}

}  // namespace sangam
