#include "client/job_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/status.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/call_queue.h"
#include "client/human_format.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/overload.h"
#include "proto/admin_service.grpc.pb.h"
#include "proto/job_service.grpc.pb.h"

namespace sangam {
namespace {

constexpr absl::Duration kIdlePeriod = absl::Milliseconds(50);
constexpr uint64_t kMaxPageSize = 1000;
// Streams in a row that end at once although the coordinator answers other calls.
constexpr int kMaxLostStreams = 20;

bool MayRepeat(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         IsBrokenOffForRoom(status) || IsRefusedForThreads(status);
}

// Whether a stream that ended so goes on with the next one. CANCELLED: the coordinator broke off a
// client that did not read for a while, being stopped, say. `began`: there were streams before this
// one; then the coordinator may have no place for it only until it sees that those have ended.
bool MayResume(const absl::Status& status, bool began) {
  return MayRepeat(status) || absl::IsCancelled(status) ||
         (began && absl::IsResourceExhausted(status));
}

// What the jitter of the backoff follows from; every process has its own.
uint64_t RandomSeed() {
  uint64_t seed = 0;
  // Without randomness clients only come back together.
  if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) < 0) return 0;
  return seed;
}

using Stub = v1::JobService::Stub;

class GrpcJobClient : public JobClient {
 public:
  GrpcJobClient(Options options, const std::shared_ptr<grpc::Channel>& channel)
      : options_(std::move(options)),
        stub_(v1::JobService::NewStub(channel)),
        admin_stub_(v1::AdminService::NewStub(channel)),
        last_idle_(options_.clock->Steady()),
        queue_([this] { return Idle(); }) {}

  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request) override;
  absl::StatusOr<v1::Job> Get(const std::string& job) override;
  absl::StatusOr<v1::Job> Cancel(const std::string& job, const std::string& reason) override;
  absl::Status Delete(const std::string& job) override;
  absl::StatusOr<v1::ListJobsResponse> List(uint64_t limit,
                                            const std::vector<v1::JobState>& states) override;
  absl::StatusOr<v1::Cluster> GetCluster() override;
  absl::StatusOr<v1::DrainDaemonResponse> DrainDaemon(
      const v1::DrainDaemonRequest& request) override;
  absl::StatusOr<v1::PlanReport> Plan(const v1::JobSpec& spec) override;
  absl::StatusOr<v1::JobTrace> Trace(const std::string& job) override;
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const std::string& job) override;
  absl::StatusOr<v1::Checkpoint> VerifyCheckpoint(const std::string& checkpoint) override;
  absl::StatusOr<v1::Checkpoint> GetCheckpoint(const std::string& checkpoint) override;
  absl::Status Watch(uint64_t job, uint64_t after_revision, WatchHandler* handler) override;
  absl::Status Logs(const v1::StreamLogsRequest& request, LogHandler* handler) override;

 private:
  template <typename Request, typename Response>
  using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*)(
      grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(const Request& request, Method<Request, Response> method) {
    return CallFor(request, method, absl::ZeroDuration());
  }
  // One try may take at least so long.
  template <typename Request, typename Response>
  absl::StatusOr<Response> CallFor(const Request& request, Method<Request, Response> method,
                                   absl::Duration shortest);
  template <typename AnyStub, typename Request, typename Response>
  using StubMethod = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (AnyStub::*)(
      grpc::ClientContext*, const Request&, grpc::CompletionQueue*);
  template <typename AnyStub, typename Request, typename Response>
  absl::StatusOr<Response> CallStub(AnyStub* stub, const Request& request,
                                    StubMethod<AnyStub, Request, Response> method,
                                    absl::Duration shortest);
  // Repeats `attempt`, which takes the deadline of one try: at least `shortest`.
  absl::Status Retry(absl::Duration shortest,
                     const std::function<CallOutcome(absl::Duration)>& attempt);
  template <typename Request, typename Item>
  using StreamMethod = std::unique_ptr<grpc::ClientAsyncReader<Item>> (Stub::*)(
      grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

  // One stream from request->after_revision on, which becomes that of the last one that came.
  template <typename Request, typename Item>
  CallOutcome StreamOnce(Request* request, StreamMethod<Request, Item> method,
                         StreamHandler<Item>* handler);
  // As many streams as it takes until all has come.
  template <typename Request, typename Item>
  absl::Status Stream(Request request, StreamMethod<Request, Item> method,
                      StreamHandler<Item>* handler);
  // Asks Options.check, and the handler of the stream that goes on.
  absl::Status Idle();
  absl::Status Pause(absl::Duration delay);

  const Options options_;
  const std::unique_ptr<Stub> stub_;
  const std::unique_ptr<v1::AdminService::Stub> admin_stub_;
  // Of the handler of the stream that goes on; else empty.
  std::function<absl::Status()> on_idle_;
  absl::Duration last_idle_;
  CallQueue queue_;
};

absl::Status GrpcJobClient::Idle() {
  last_idle_ = options_.clock->Steady();
  RETURN_IF_ERROR(options_.check());
  return on_idle_ ? on_idle_() : absl::OkStatus();
}

absl::Status GrpcJobClient::Pause(absl::Duration delay) {
  const absl::Duration until = options_.clock->Steady() + delay;
  while (true) {
    RETURN_IF_ERROR(Idle());
    const absl::Duration left = until - options_.clock->Steady();
    if (left <= absl::ZeroDuration()) return absl::OkStatus();
    absl::SleepFor(std::min(left, kIdlePeriod));
  }
}

absl::Status GrpcJobClient::Retry(absl::Duration shortest,
                                  const std::function<CallOutcome(absl::Duration)>& attempt) {
  const absl::Duration start = options_.clock->Steady();
  Backoff backoff(options_.backoff, RandomSeed());
  int tries = 0;
  while (true) {
    const absl::Duration left = options_.timeout - (options_.clock->Steady() - start);
    const CallOutcome outcome = attempt(std::max(std::min(options_.call_deadline, left), shortest));
    ++tries;
    RETURN_IF_ERROR(outcome.stop);
    if (!MayRepeat(outcome.rpc)) return outcome.rpc;
    const absl::Duration delay = backoff.Next();
    const absl::Duration elapsed = options_.clock->Steady() - start;
    if (elapsed + delay >= options_.timeout) {
      return absl::Status(
          outcome.rpc.code(),
          absl::StrCat("coordinator ", options_.coordinator, " cannot be reached: ", tries,
                       tries == 1 ? " try in " : " tries in ", HumanDuration(elapsed),
                       "; the last one: ", outcome.rpc.message()));
    }
    RETURN_IF_ERROR(Pause(delay));
  }
}

template <typename Request, typename Response>
absl::StatusOr<Response> GrpcJobClient::CallFor(const Request& request,
                                                Method<Request, Response> method,
                                                absl::Duration shortest) {
  return CallStub(stub_.get(), request, method, shortest);
}

template <typename AnyStub, typename Request, typename Response>
absl::StatusOr<Response> GrpcJobClient::CallStub(AnyStub* stub, const Request& request,
                                                 StubMethod<AnyStub, Request, Response> method,
                                                 absl::Duration shortest) {
  Response response;
  RETURN_IF_ERROR(Retry(shortest, [&](absl::Duration deadline) {
    grpc::ClientContext context;
    SetTimeout(deadline, &context);
    const auto reader = (stub->*method)(&context, request, queue_.queue());
    reader->StartCall();
    grpc::Status status;
    response.Clear();
    reader->Finish(&response, &status, this);
    bool ok = false;
    const absl::Status stop = queue_.Await(&context, &ok);
    return CallOutcome{stop, FromGrpcStatusWithDetails(status)};
  }));
  return response;
}

absl::StatusOr<v1::Job> GrpcJobClient::Submit(const v1::SubmitJobRequest& request) {
  // The checkpoint that the job goes on from is read first.
  const absl::Duration shortest =
      request.spec().resume_from().empty() ? absl::ZeroDuration() : options_.reading_deadline;
  ASSIGN_OR_RETURN(v1::SubmitJobResponse response,
                   CallFor(request, &Stub::PrepareAsyncSubmitJob, shortest));
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::Job> GrpcJobClient::Get(const std::string& job) {
  v1::GetJobRequest request;
  request.set_job(job);
  return Call(request, &Stub::PrepareAsyncGetJob);
}

absl::StatusOr<v1::Job> GrpcJobClient::Cancel(const std::string& job, const std::string& reason) {
  v1::CancelJobRequest request;
  request.set_job(job);
  request.set_reason(reason);
  return Call(request, &Stub::PrepareAsyncCancelJob);
}

absl::Status GrpcJobClient::Delete(const std::string& job) {
  v1::DeleteJobRequest request;
  request.set_job(job);
  return Call(request, &Stub::PrepareAsyncDeleteJob).status();
}

absl::StatusOr<v1::ListJobsResponse> GrpcJobClient::List(uint64_t limit,
                                                         const std::vector<v1::JobState>& states) {
  v1::ListJobsResponse all;
  v1::ListJobsRequest request;
  for (const v1::JobState state : states) request.add_state(state);
  while (true) {
    const uint64_t have = static_cast<uint64_t>(all.job_size());
    const uint64_t want = limit == 0 ? kMaxPageSize : std::min(kMaxPageSize, limit - have);
    request.set_page_size(static_cast<uint32_t>(want));
    ASSIGN_OR_RETURN(v1::ListJobsResponse page, Call(request, &Stub::PrepareAsyncListJobs));
    all.set_more(page.more());
    for (v1::Job& job : *page.mutable_job()) {
      // Ids that do not fall would make this loop endless.
      const bool falls = request.before_id() == 0 || job.id() < request.before_id();
      if (job.id() == 0 || !falls) {
        return absl::InternalError(absl::StrCat("the coordinator listed job ", job.id(),
                                                " behind job ", request.before_id(),
                                                ", expected falling numbers"));
      }
      request.set_before_id(job.id());
      *all.add_job() = std::move(job);
    }
    if (!page.more() || page.job_size() == 0) return all;
    if (limit != 0 && static_cast<uint64_t>(all.job_size()) >= limit) return all;
  }
}

absl::StatusOr<v1::Cluster> GrpcJobClient::GetCluster() {
  return Call(v1::GetClusterRequest(), &Stub::PrepareAsyncGetCluster);
}

absl::StatusOr<v1::DrainDaemonResponse> GrpcJobClient::DrainDaemon(
    const v1::DrainDaemonRequest& request) {
  return CallStub(admin_stub_.get(), request, &v1::AdminService::Stub::PrepareAsyncDrainDaemon,
                  absl::ZeroDuration());
}

absl::StatusOr<v1::PlanReport> GrpcJobClient::Plan(const v1::JobSpec& spec) {
  v1::PlanJobRequest request;
  *request.mutable_spec() = spec;
  return Call(request, &Stub::PrepareAsyncPlanJob);
}

absl::StatusOr<v1::ListCheckpointsResponse> GrpcJobClient::ListCheckpoints(const std::string& job) {
  v1::ListCheckpointsRequest request;
  request.set_job(job);
  return Call(request, &Stub::PrepareAsyncListCheckpoints);
}

absl::StatusOr<v1::Checkpoint> GrpcJobClient::VerifyCheckpoint(const std::string& checkpoint) {
  v1::VerifyCheckpointRequest request;
  request.set_checkpoint(checkpoint);
  return CallFor(request, &Stub::PrepareAsyncVerifyCheckpoint, options_.reading_deadline);
}

absl::StatusOr<v1::Checkpoint> GrpcJobClient::GetCheckpoint(const std::string& checkpoint) {
  v1::GetCheckpointRequest request;
  request.set_checkpoint(checkpoint);
  return Call(request, &Stub::PrepareAsyncGetCheckpoint);
}

absl::StatusOr<v1::JobTrace> GrpcJobClient::Trace(const std::string& job) {
  v1::GetTraceRequest request;
  request.set_job(job);
  return Call(request, &Stub::PrepareAsyncGetTrace);
}

template <typename Request, typename Item>
CallOutcome GrpcJobClient::StreamOnce(Request* request, StreamMethod<Request, Item> method,
                                      StreamHandler<Item>* handler) {
  grpc::ClientContext context;
  SetTimeout(options_.stream_deadline, &context);
  const auto reader = (stub_.get()->*method)(&context, *request, queue_.queue());
  CallOutcome outcome;
  bool ok = false;
  reader->StartCall(this);
  outcome.stop = queue_.Await(&context, &ok);
  Item item;
  while (ok && outcome.stop.ok()) {
    reader->Read(&item, this);
    outcome.stop = queue_.Await(&context, &ok);
    if (!ok || !outcome.stop.ok()) break;
    if (item.revision() <= request->after_revision()) continue;
    request->set_after_revision(item.revision());
    outcome.stop = handler->OnEvent(item);
    const bool due = options_.clock->Steady() - last_idle_ >= kIdlePeriod;
    if (outcome.stop.ok() && due) outcome.stop = Idle();
  }
  if (!outcome.stop.ok()) {
    context.TryCancel();
    return outcome;
  }
  grpc::Status status;
  reader->Finish(&status, this);
  outcome.stop = queue_.Await(&context, &ok);
  outcome.rpc = FromGrpcStatusWithDetails(status);
  return outcome;
}

template <typename Request, typename Item>
absl::Status GrpcJobClient::Stream(Request request, StreamMethod<Request, Item> method,
                                   StreamHandler<Item>* handler) {
  on_idle_ = [handler] { return handler->OnIdle(); };
  Backoff backoff(options_.backoff, RandomSeed());
  int lost = 0;
  absl::Status result;
  for (bool began = false;; began = true) {
    const uint64_t before = request.after_revision();
    const CallOutcome outcome = StreamOnce(&request, method, handler);
    result = outcome.stop.ok() ? outcome.rpc : outcome.stop;
    if (!outcome.stop.ok() || !MayResume(outcome.rpc, began)) break;
    if (request.after_revision() > before) {
      backoff.Reset();
      lost = 0;
    }
    // Of a quiet stream only the time is over.
    if (!absl::IsDeadlineExceeded(outcome.rpc)) {
      if (++lost > kMaxLostStreams) break;
      handler->OnLost(outcome.rpc);
      result = Pause(backoff.Next());
      if (!result.ok()) break;
    }
    // Is somebody there at all? This also bounds the time without an answer.
    result = Get(request.job()).status();
    if (!result.ok()) break;
    handler->OnBack();
  }
  on_idle_ = nullptr;
  return result;
}

absl::Status GrpcJobClient::Watch(uint64_t job, uint64_t after_revision, WatchHandler* handler) {
  v1::WatchJobRequest request;
  request.set_job(absl::StrCat(job));
  request.set_after_revision(after_revision);
  return Stream(std::move(request), &Stub::PrepareAsyncWatchJob, handler);
}

absl::Status GrpcJobClient::Logs(const v1::StreamLogsRequest& request, LogHandler* handler) {
  return Stream(request, &Stub::PrepareAsyncStreamLogs, handler);
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobClient>> JobClient::Create(Options options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                   MakeControlChannel(options.coordinator), "coordinator");
  return std::make_unique<GrpcJobClient>(std::move(options), channel);
}

std::string NewRequestId() {
  std::array<char, 16> bytes{};
  // Reads of up to 256 bytes are never cut short.
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return "";
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

}  // namespace sangam
