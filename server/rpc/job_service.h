#ifndef SANGAM_SERVER_RPC_JOB_SERVICE_H_
#define SANGAM_SERVER_RPC_JOB_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include "common/rpc/call_places.h"
#include "common/rpc/request_guard.h"
#include "proto/job_service.grpc.pb.h"
#include "server/runtime/coordinator.h"

namespace sangam {

// JobService over the coordinator: translates, and shows each caller its own jobs. Thread-safe.
class GrpcJobService final : public v1::JobService::Service {
 public:
  // `coordinator`, and what `limits` has, must outlive the service.
  explicit GrpcJobService(Coordinator* coordinator, const CallLimits& limits = {})
      : coordinator_(*coordinator),
        limits_(limits),
        watches_(limits.max_watches, limits.max_watches_of_one) {}

  grpc::Status SubmitJob(grpc::ServerContext* context, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override;
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::Job* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override;
  grpc::Status StreamLogs(grpc::ServerContext* context, const v1::StreamLogsRequest* request,
                          grpc::ServerWriter<v1::LogLine>* writer) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::Job* response) override;
  grpc::Status DeleteJob(grpc::ServerContext* context, const v1::DeleteJobRequest* request,
                         v1::DeleteJobResponse* response) override;
  grpc::Status GetCluster(grpc::ServerContext* context, const v1::GetClusterRequest* request,
                          v1::Cluster* response) override;
  grpc::Status PlanJob(grpc::ServerContext* context, const v1::PlanJobRequest* request,
                       v1::PlanReport* response) override;
  grpc::Status GetTrace(grpc::ServerContext* context, const v1::GetTraceRequest* request,
                        v1::JobTrace* response) override;
  grpc::Status ListCheckpoints(grpc::ServerContext* context,
                               const v1::ListCheckpointsRequest* request,
                               v1::ListCheckpointsResponse* response) override;
  grpc::Status VerifyCheckpoint(grpc::ServerContext* context,
                                const v1::VerifyCheckpointRequest* request,
                                v1::Checkpoint* response) override;
  grpc::Status GetCheckpoint(grpc::ServerContext* context, const v1::GetCheckpointRequest* request,
                             v1::Checkpoint* response) override;

 private:
  Coordinator& coordinator_;
  const CallLimits limits_;
  CallPlaces watches_;  // WatchJob and StreamLogs
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_JOB_SERVICE_H_
