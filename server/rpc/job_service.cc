#include "server/rpc/job_service.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/grpc_status.h"
#include "proto/job_service.grpc.pb.h"
#include "server/runtime/coordinator.h"

namespace sangam {
namespace {

constexpr size_t kEventsAtOnce = 256;
// How late a stream sees that its client has gone.
constexpr absl::Duration kLookAtClient = absl::Milliseconds(500);

// How long the log of a job that has ended must be quiet until its daemons have said all.
constexpr int kQuietLooks = 3;

}  // namespace

grpc::Status GrpcJobService::SubmitJob(grpc::ServerContext* /*context*/,
                                       const v1::SubmitJobRequest* request,
                                       v1::SubmitJobResponse* response) {
  absl::StatusOr<v1::Job> job = coordinator_.Submit(*request);
  if (!job.ok()) return ToGrpcStatus(job.status());
  *response->mutable_job() = *std::move(job);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::GetJob(grpc::ServerContext* /*context*/,
                                    const v1::GetJobRequest* request, v1::Job* response) {
  absl::StatusOr<v1::Job> job = coordinator_.Get(request->job());
  if (!job.ok()) return ToGrpcStatus(job.status());
  *response = *std::move(job);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::ListJobs(grpc::ServerContext* /*context*/,
                                      const v1::ListJobsRequest* request,
                                      v1::ListJobsResponse* response) {
  *response = coordinator_.List(*request);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::WatchJob(grpc::ServerContext* context,
                                      const v1::WatchJobRequest* request,
                                      grpc::ServerWriter<v1::JobEvent>* writer) {
  const absl::StatusOr<v1::Job> job = coordinator_.Get(request->job());
  if (!job.ok()) return ToGrpcStatus(job.status());
  uint64_t after = request->after_revision();
  while (!context->IsCancelled()) {
    const absl::StatusOr<Coordinator::Events> found =
        coordinator_.WaitForEvents(job->id(), after, kEventsAtOnce, kLookAtClient);
    if (!found.ok()) return ToGrpcStatus(found.status());
    for (const v1::JobEvent& event : found->events) {
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
  const absl::StatusOr<v1::Job> job = coordinator_.Get(request->job());
  if (!job.ok()) return ToGrpcStatus(job.status());
  uint64_t after = request->after_revision();
  for (int quiet = 0; !context->IsCancelled();) {
    const absl::StatusOr<Coordinator::Logs> found =
        coordinator_.WaitForLogs(job->id(), after, request->daemon(), kEventsAtOnce,
                                 request->follow() ? kLookAtClient : absl::ZeroDuration());
    if (!found.ok()) return ToGrpcStatus(found.status());
    for (const v1::LogLine& line : found->lines) {
      if (!writer->Write(line)) return grpc::Status::CANCELLED;
    }
    after = found->revision;
    quiet = found->lines.empty() && found->ended ? quiet + 1 : 0;
    const bool all = request->follow() ? quiet >= kQuietLooks : found->lines.empty();
    if (all) return grpc::Status::OK;
  }
  return grpc::Status::CANCELLED;
}

grpc::Status GrpcJobService::CancelJob(grpc::ServerContext* /*context*/,
                                       const v1::CancelJobRequest* request, v1::Job* response) {
  absl::StatusOr<v1::Job> job = coordinator_.Cancel(*request);
  if (!job.ok()) return ToGrpcStatus(job.status());
  *response = *std::move(job);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::DeleteJob(grpc::ServerContext* /*context*/,
                                       const v1::DeleteJobRequest* request,
                                       v1::DeleteJobResponse* /*response*/) {
  return ToGrpcStatus(coordinator_.Delete(*request));
}

grpc::Status GrpcJobService::GetCluster(grpc::ServerContext* /*context*/,
                                        const v1::GetClusterRequest* /*request*/,
                                        v1::Cluster* response) {
  *response = coordinator_.DescribeCluster();
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::PlanJob(grpc::ServerContext* /*context*/,
                                     const v1::PlanJobRequest* request, v1::PlanReport* response) {
  absl::StatusOr<v1::PlanReport> report = coordinator_.Plan(*request);
  if (!report.ok()) return ToGrpcStatus(report.status());
  *response = *std::move(report);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::GetTrace(grpc::ServerContext* /*context*/,
                                      const v1::GetTraceRequest* request, v1::JobTrace* response) {
  absl::StatusOr<v1::JobTrace> trace = coordinator_.Trace(request->job());
  if (!trace.ok()) return ToGrpcStatus(trace.status());
  *response = *std::move(trace);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::ListCheckpoints(grpc::ServerContext* /*context*/,
                                             const v1::ListCheckpointsRequest* request,
                                             v1::ListCheckpointsResponse* response) {
  absl::StatusOr<v1::ListCheckpointsResponse> all = coordinator_.ListCheckpoints(*request);
  if (!all.ok()) return ToGrpcStatus(all.status());
  *response = *std::move(all);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::VerifyCheckpoint(grpc::ServerContext* /*context*/,
                                              const v1::VerifyCheckpointRequest* request,
                                              v1::Checkpoint* response) {
  absl::StatusOr<v1::Checkpoint> found = coordinator_.VerifyCheckpoint(*request);
  if (!found.ok()) return ToGrpcStatus(found.status());
  *response = *std::move(found);
  return grpc::Status::OK;
}

grpc::Status GrpcJobService::GetCheckpoint(grpc::ServerContext* /*context*/,
                                           const v1::GetCheckpointRequest* request,
                                           v1::Checkpoint* response) {
  absl::StatusOr<v1::Checkpoint> found = coordinator_.GetCheckpoint(*request);
  if (!found.ok()) return ToGrpcStatus(found.status());
  *response = *std::move(found);
  return grpc::Status::OK;
}

}  // namespace sangam
