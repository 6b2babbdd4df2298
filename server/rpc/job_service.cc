#include "server/rpc/job_service.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/job_scope.h"
#include "common/base/memory_budget.h"
#include "common/base/refusal_counts.h"
#include "common/rpc/call_places.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/process_credentials.h"
#include "common/rpc/request_guard.h"
#include "common/rpc/stalled_calls.h"
#include "common/security/caller.h"
#include "proto/job_service.grpc.pb.h"
#include "server/runtime/coordinator.h"

namespace sangam {
namespace {

constexpr size_t kEventsAtOnce = 256;
// How late a stream sees that its client has gone.
constexpr absl::Duration kLookAtClient = absl::Milliseconds(500);

// How long the log of a job that has ended must be quiet until its daemons have said all.
constexpr int kQuietLooks = 3;

// The jobs that the caller may see.
JobScope ScopeOf(const grpc::ServerContext& context) {
  const Caller caller = CallerIdentity(context);
  return caller.sees_all() ? JobScope() : JobScope(caller.owner());
}

// A token can be taken from its holder while a stream is open; a certificate is of the connection.
absl::Status CheckStillIs(const std::string& caller, const grpc::ServerContext& context) {
  if (CallerIdentity(context).ToString() == caller) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("the credentials of ", caller, " are not valid any more"));
}

grpc::Status NoPlace(const CallLimits& limits) {
  CountRefusal(limits.counts, Refusal::kCalls);
  return ToGrpcStatus(absl::ResourceExhaustedError(
      absl::StrCat("quota: as many calls follow jobs as may, ", limits.max_watches_of_one,
                   " of one caller and ", limits.max_watches, " of all; end one or try later")));
}

std::string Resource(absl::string_view job) { return absl::StrCat("job ", job); }

}  // namespace

grpc::Status GrpcJobService::SubmitJob(grpc::ServerContext* context,
                                       const v1::SubmitJobRequest* request,
                                       v1::SubmitJobResponse* response) {
  const absl::StatusOr<MemoryLease> lease = AdmitRequest(limits_.budget, context, *request);
  if (!lease.ok()) return ToGrpcStatus(lease.status());
  absl::StatusOr<v1::Job> job =
      coordinator_.Submit(*request, CallerIdentity(*context).owner(), ScopeOf(*context));
  if (!request->validate_only()) {
    const std::string& from = request->spec().resume_from();
    Audit(*context, from.empty() ? "SubmitJob" : "SubmitJob from a checkpoint",
          absl::StrCat(job.ok() ? Resource(absl::StrCat(job->id())) : "job", " \"",
                       request->spec().name(), "\"", from.empty() ? "" : " from ", from),
          job.status());
  }
  if (!job.ok()) return ToGrpcStatus(job.status());
  *response->mutable_job() = *std::move(job);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                                    v1::Job* response) {
  absl::StatusOr<v1::Job> job = coordinator_.Get(request->job(), ScopeOf(*context));
  if (!job.ok()) return ToGrpcStatus(job.status());
  *response = *std::move(job);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::ListJobs(grpc::ServerContext* context,
                                      const v1::ListJobsRequest* request,
                                      v1::ListJobsResponse* response) {
  *response = coordinator_.List(*request, ScopeOf(*context));
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::WatchJob(grpc::ServerContext* context,
                                      const v1::WatchJobRequest* request,
                                      grpc::ServerWriter<v1::JobEvent>* writer) {
  const std::string caller = CallerIdentity(*context).ToString();
  const absl::StatusOr<v1::Job> job = coordinator_.Get(request->job(), ScopeOf(*context));
  if (!job.ok()) return ToGrpcStatus(job.status());
  const CallPlaces::Place place(&watches_, HolderOf(*context));
  if (!place.taken()) return NoPlace(limits_);
  uint64_t after = request->after_revision();
  while (!context->IsCancelled()) {
    const absl::StatusOr<Coordinator::Events> found =
        coordinator_.WaitForEvents(job->id(), after, kEventsAtOnce, kLookAtClient);
    if (!found.ok()) return ToGrpcStatus(found.status());
    if (const absl::Status still = CheckStillIs(caller, *context); !still.ok()) {
      return ToGrpcStatus(still);
    }
    for (const v1::JobEvent& event : found->events) {
      const StalledCalls::Write write(limits_.stalled, context, "WatchJob");
      if (!writer->Write(event)) return grpc::Status::CANCELLED;
      after = event.revision();
    }
    if (found->complete) return grpc::Status::OK;
  }
  return grpc::Status::CANCELLED;
}

grpc::Status GrpcJobService::StreamLogs(grpc::ServerContext* context,
                                        const v1::StreamLogsRequest* request,
                                        grpc::ServerWriter<v1::LogLine>* writer) {
  const std::string caller = CallerIdentity(*context).ToString();
  const absl::StatusOr<v1::Job> job = coordinator_.Get(request->job(), ScopeOf(*context));
  if (!job.ok()) return ToGrpcStatus(job.status());
  const CallPlaces::Place place(&watches_, HolderOf(*context));
  if (!place.taken()) return NoPlace(limits_);
  uint64_t after = request->after_revision();
  for (int quiet = 0; !context->IsCancelled();) {
    const absl::StatusOr<Coordinator::Logs> found =
        coordinator_.WaitForLogs(job->id(), after, request->daemon(), kEventsAtOnce,
                                 request->follow() ? kLookAtClient : absl::ZeroDuration());
    if (!found.ok()) return ToGrpcStatus(found.status());
    if (const absl::Status still = CheckStillIs(caller, *context); !still.ok()) {
      return ToGrpcStatus(still);
    }
    for (const v1::LogLine& line : found->lines) {
      const StalledCalls::Write write(limits_.stalled, context, "StreamLogs");
      if (!writer->Write(line)) return grpc::Status::CANCELLED;
    }
    after = found->revision;
    quiet = found->lines.empty() && found->ended ? quiet + 1 : 0;
    const bool all = request->follow() ? quiet >= kQuietLooks : found->lines.empty();
    if (all) return grpc::Status::OK;
  }
  return grpc::Status::CANCELLED;
}

grpc::Status GrpcJobService::CancelJob(grpc::ServerContext* context,
                                       const v1::CancelJobRequest* request, v1::Job* response) {
  absl::StatusOr<v1::Job> job = coordinator_.Cancel(*request, ScopeOf(*context));
  Audit(*context, "CancelJob", Resource(request->job()), job.status());
  if (!job.ok()) return ToGrpcStatus(job.status());
  *response = *std::move(job);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::DeleteJob(grpc::ServerContext* context,
                                       const v1::DeleteJobRequest* request,
                                       v1::DeleteJobResponse* /*response*/) {
  const absl::Status status = coordinator_.Delete(*request, ScopeOf(*context));
  Audit(*context, "DeleteJob", Resource(request->job()), status);
  return ToGrpcStatus(status);
}

grpc::Status GrpcJobService::GetCluster(grpc::ServerContext* /*context*/,
                                        const v1::GetClusterRequest* /*request*/,
                                        v1::Cluster* response) {
  *response = coordinator_.DescribeCluster();
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::PlanJob(grpc::ServerContext* context,
                                     const v1::PlanJobRequest* request, v1::PlanReport* response) {
  const absl::StatusOr<MemoryLease> lease = AdmitRequest(limits_.budget, context, *request);
  if (!lease.ok()) return ToGrpcStatus(lease.status());
  absl::StatusOr<v1::PlanReport> report = coordinator_.Plan(*request);
  if (!report.ok()) return ToGrpcStatus(report.status());
  *response = *std::move(report);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::GetTrace(grpc::ServerContext* context,
                                      const v1::GetTraceRequest* request, v1::JobTrace* response) {
  absl::StatusOr<v1::JobTrace> trace = coordinator_.Trace(request->job(), ScopeOf(*context));
  if (!trace.ok()) return ToGrpcStatus(trace.status());
  *response = *std::move(trace);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::ListCheckpoints(grpc::ServerContext* context,
                                             const v1::ListCheckpointsRequest* request,
                                             v1::ListCheckpointsResponse* response) {
  absl::StatusOr<v1::ListCheckpointsResponse> all =
      coordinator_.ListCheckpoints(*request, ScopeOf(*context));
  if (!all.ok()) return ToGrpcStatus(all.status());
  *response = *std::move(all);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::VerifyCheckpoint(grpc::ServerContext* context,
                                              const v1::VerifyCheckpointRequest* request,
                                              v1::Checkpoint* response) {
  absl::StatusOr<v1::Checkpoint> found = coordinator_.VerifyCheckpoint(*request, ScopeOf(*context));
  if (!found.ok()) return ToGrpcStatus(found.status());
  *response = *std::move(found);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::GetCheckpoint(grpc::ServerContext* context,
                                           const v1::GetCheckpointRequest* request,
                                           v1::Checkpoint* response) {
  absl::StatusOr<v1::Checkpoint> found = coordinator_.GetCheckpoint(*request, ScopeOf(*context));
  if (!found.ok()) return ToGrpcStatus(found.status());
  *response = *std::move(found);
  return grpc::Status::OK;
}

}  // namespace sangam
