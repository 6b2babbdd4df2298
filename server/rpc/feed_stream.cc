#include "server/rpc/feed_stream.h"

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
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
#include "common/base/version.h"
#include "common/data/batch_id.h"
#include "common/data/batch_reader.h"
#include "common/plan/pipeline_layout.h"
#include "common/rpc/accepted_stream.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/server_stream.h"
#include "common/security/caller.h"
#include "common/security/identity.h"
#include "common/tensor/buffer.h"
#include "common/tensor/frame_codec.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/served_data.h"

namespace sangam {
namespace {

std::string KindName(v1::FrameKind kind) {
  const std::string name = v1::FrameKind_Name(kind);
  return name.empty() ? absl::StrCat(static_cast<int>(kind)) : name;
}

absl::Status CheckGeneration(uint64_t found, uint64_t current) {
  if (found == current) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("generation: found ", found, ", the coordinator serves ", current));
}

absl::Status CheckHello(const v1::Plan& plan, const v1::FrameHeader& header,
                        const v1::StreamHello& hello) {
  if (hello.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("protocol version: worker '", hello.worker(),
                                                      "' has ", hello.protocol_version(),
                                                      ", the coordinator has ", kProtocolVersion));
  }
  RETURN_IF_ERROR(CheckGeneration(header.generation(), plan.generation()));
  if (header.source() >= static_cast<uint32_t>(plan.worker_size())) {
    return absl::InvalidArgumentError(absl::StrCat("source: found ", header.source(),
                                                   ", expected less than ", plan.worker_size()));
  }
  const v1::WorkerPlan& expected = plan.worker(static_cast<int>(header.source()));
  if (hello.worker() != expected.name()) {
    return absl::InvalidArgumentError(absl::StrCat("worker: found '", hello.worker(),
                                                   "' as source ", header.source(),
                                                   ", the plan has '", expected.name(), "'"));
  }
  if (hello.incarnation() != expected.incarnation()) {
    return absl::AbortedError(absl::StrCat("incarnation of worker '", hello.worker(), "': found ",
                                           hello.incarnation(), ", the plan has ",
                                           expected.incarnation()));
  }
  if (hello.schema_hash() != plan.schema_hash()) {
    return absl::FailedPreconditionError(
        absl::StrCat("schema of job ", plan.job(), ": worker '", hello.worker(), "' has ",
                     hello.schema_hash(), ", the coordinator has ", plan.schema_hash()));
  }
  return absl::OkStatus();
}

}  // namespace

FeedStream::FeedStream(const FeedContext* context, std::shared_ptr<ServerStream> stream)
    : AcceptedStream(context, {"feed", "frame", "HELLO", "/sangam.v1.DataService/Feed"},
                     std::move(stream)),
      context_(*context) {}

absl::Status FeedStream::OnNext(const grpc::ByteBuffer& message, bool first) {
  if (message.Length() > context_.max_message_bytes) {
    CountRefusal(context_.counts, Refusal::kMessageSize);
    return absl::InvalidArgumentError(absl::StrCat("found a message of ", message.Length(),
                                                   " bytes, expected at most ",
                                                   context_.max_message_bytes));
  }
  ASSIGN_OR_RETURN(const SlicePayload bytes, FromByteBuffer(message));
  ASSIGN_OR_RETURN(const Frame frame, DecodeFrame(bytes));
  const v1::FrameKind expected = first ? v1::FRAME_KIND_HELLO : v1::FRAME_KIND_DATA_REQUEST;
  if (frame.header.kind() != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind: found ", KindName(frame.header.kind()), ", expected ",
                     KindName(expected), first ? " as the first frame" : " after the HELLO"));
  }
  return first ? OnHello(frame) : OnRequest(frame);
}

absl::Status FeedStream::OnHello(const Frame& frame) {
  ASSIGN_OR_RETURN(const v1::StreamHello hello, DecodeHello(frame.payload));
  RETURN_IF_ERROR(caller().CheckDaemon(Role::kWorker, hello.worker()));
  ASSIGN_OR_RETURN(const std::shared_ptr<const ServedJob> job,
                   context_.find_job(frame.header.job()));
  RETURN_IF_ERROR(CheckHello(job->plan(), frame.header, hello));
  job_ = frame.header.job();
  generation_ = frame.header.generation();
  source_ = frame.header.source();
  worker_ = hello.worker();
  wants_inputs_ = HasFirstBlock(job->plan(), source_);
  wants_labels_ = HasLastBlock(job->plan(), source_);
  if (!wants_inputs_ && !wants_labels_) {
    return absl::InvalidArgumentError(
        absl::StrCat("source: worker '", worker_,
                     "' has neither the first nor the last block, so there is nothing to send it"));
  }
  RETURN_IF_ERROR(context_.registry->Claim(this, job_, generation_, source_, hello.incarnation()));
  served_ = job;
  LogInfo("feed opened", "job=%d generation=%d worker=%s inputs=%d labels=%d", job_, generation_,
          LogValue(worker_), wants_inputs_, wants_labels_);
  MutexLock lock(&mutex_);
  Open();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const ServedJob>> FeedStream::LockJob() const {
  if (std::shared_ptr<const ServedJob> job = served_.lock()) return job;
  ASSIGN_OR_RETURN(const std::shared_ptr<const ServedJob> newer, context_.find_job(job_));
  RETURN_IF_ERROR(CheckGeneration(generation_, newer->plan().generation()));
  return absl::NotFoundError(absl::StrCat("job ", job_, ": its data was opened anew"));
}

absl::Status FeedStream::OnRequest(const Frame& frame) {
  const v1::FrameHeader& header = frame.header;
  if (header.job() != job_) {
    return absl::PermissionDeniedError(
        absl::StrCat("job: found ", header.job(), ", expected ", job_, " as in the HELLO"));
  }
  if (header.source() != source_) {
    return absl::InvalidArgumentError(absl::StrCat("source: found ", header.source(), ", expected ",
                                                   source_, " as in the HELLO"));
  }
  RETURN_IF_ERROR(CheckGeneration(header.generation(), generation_));
  if (frame.payload.size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("payload of DATA_REQUEST: found ",
                                                   frame.payload.size(), " bytes, expected none"));
  }
  const BatchId id = {header.evaluation(), header.step(), header.micro_batch()};
  ASSIGN_OR_RETURN(const std::shared_ptr<const ServedJob> job, LockJob());
  if (const absl::Status found = job->reader.Find(id).status(); !found.ok()) {
    return absl::InvalidArgumentError(found.message());
  }
  {
    MutexLock lock(&mutex_);
    if (unanswered_ >= context_.max_requests) {
      return absl::ResourceExhaustedError(absl::StrCat("found a request while ", unanswered_,
                                                       " are unanswered, expected at most ",
                                                       context_.max_requests));
    }
    ++unanswered_;
    requests_.push_back(id);
  }
  WakeStream();
  return absl::OkStatus();
}

absl::Status FeedStream::Read(const BatchId& id) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const ServedJob> job, LockJob());
  ASSIGN_OR_RETURN(const BatchRows rows, job->reader.Find(id));
  Answer answer;
  answer.id = id;
  answer.rows = rows.size();
  answer.input_elements = job->reader.input_elements();
  answer.labels_per_sample = job->reader.labels_per_sample();
  float* inputs = nullptr;
  uint32_t* labels = nullptr;
  if (wants_inputs_ && answer.rows > 0) {
    ASSIGN_OR_RETURN(answer.inputs, FloatBuffer::Allocate(answer.rows * answer.input_elements));
    inputs = answer.inputs.data();
  }
  if (wants_labels_ && answer.rows > 0) {
    const uint64_t count = answer.rows * answer.labels_per_sample;
    std::unique_ptr<uint32_t[]> memory(new (std::nothrow) uint32_t[count]);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("labels of ", answer.rows,
                                                       " samples: no memory for ",
                                                       count * sizeof(uint32_t), " bytes"));
    }
    answer.labels = std::move(memory);
    labels = answer.labels.get();
  }
  for (uint64_t r = 0; r < answer.rows; ++r) {
    RETURN_IF_ERROR(rows.Read(r, inputs, labels));
    if (inputs != nullptr) inputs += answer.input_elements;
    if (labels != nullptr) labels += answer.labels_per_sample;
  }
  answer.sends_inputs = wants_inputs_;
  answer_ = std::move(answer);
  return absl::OkStatus();
}

std::optional<grpc::ByteBuffer> FeedStream::NextMessage() {
  std::optional<BatchId> next;
  {
    MutexLock lock(&mutex_);
    NoteProgress();
    if (has_ended()) answer_.reset();
    if (!answer_.has_value() && !requests_.empty()) {
      next = requests_.front();
      requests_.pop_front();
    }
    sending_ = answer_.has_value() || next.has_value();
    if (!sending_) return std::nullopt;
  }
  if (next.has_value()) {
    if (const absl::Status status = Read(*next); !status.ok()) {
      End(status);
      return std::nullopt;
    }
  }
  return NextPiece();
}

grpc::ByteBuffer FeedStream::NextPiece() {
  Answer& answer = *answer_;
  const uint64_t columns = answer.sends_inputs ? answer.input_elements : answer.labels_per_sample;
  const uint64_t total = answer.rows * columns;
  const uint64_t count = std::min(total - answer.sent, context_.piece_elements);
  v1::FrameHeader header;
  header.set_job(job_);
  header.set_generation(generation_);
  header.set_step(answer.id.step);
  header.set_evaluation(answer.id.evaluation);
  header.set_micro_batch(answer.id.index);
  header.set_rows(answer.rows);
  header.set_columns(columns);
  header.set_first_element(answer.sent);
  header.set_element_count(count);
  header.set_kind(answer.sends_inputs ? v1::FRAME_KIND_INPUTS : v1::FRAME_KIND_LABELS);
  header.set_encoding(answer.sends_inputs ? v1::ENCODING_FP32 : v1::ENCODING_UINT32);
  SlicePayload payload;
  if (count > 0 && answer.sends_inputs) {
    payload = SlicePayload::FromFloats(answer.inputs, answer.sent, count);
  } else if (count > 0) {
    const auto* first = reinterpret_cast<const uint8_t*>(answer.labels.get() + answer.sent);
    payload = SlicePayload({{first, count * sizeof(uint32_t)}}, answer.labels);
  }
  answer.sent += count;
  if (answer.sent == total) {
    if (answer.sends_inputs && wants_labels_) {
      answer.sends_inputs = false;
      answer.sent = 0;
    } else {
      answer_.reset();
      // Before it is sent: whoever has the answer may ask again.
      MutexLock lock(&mutex_);
      --unanswered_;
    }
  }
  return ToByteBuffer(EncodeFramePrefix(header, payload.size()), payload);
}

std::string FeedStream::LogFields() const {
  return absl::StrCat("job=", job_, " worker=", LogValue(worker_), " frames=", num_messages());
}

void FeedStream::DropWaiting() {
  MutexLock lock(&mutex_);
  requests_.clear();
}

absl::Status FeedStream::Fault(absl::Duration idle) const {
  if (absl::Status held = LockJob().status(); !held.ok()) return held;
  if (sending_ && idle >= context_.stall_deadline) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the worker does not read: it has let nothing through for ", absl::FormatDuration(idle),
        ", and ", unanswered_, " of its requests are unanswered"));
  }
  return absl::OkStatus();
}

}  // namespace sangam
