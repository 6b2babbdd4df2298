#ifndef SANGAM_TESTS_CLIENT_FAKE_COORDINATOR_H_
#define SANGAM_TESTS_CLIENT_FAKE_COORDINATOR_H_

#include <grpcpp/server.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/rpc/stalled_calls.h"
#include "proto/admin_service.grpc.pb.h"
#include "proto/admin_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job_service.grpc.pb.h"
#include "proto/job_service.pb.h"
#include "proto/parameter_service.grpc.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/tensor.pb.h"

namespace sangam {

// A coordinator and parameter server that knows only what a test has told it, on a port of its own
// of the loopback interface. Thread-safe.
class FakeCoordinator : public v1::JobService::Service,
                        public v1::AdminService::Service,
                        public v1::ParameterService::Service {
 public:
  // What WatchJob does after it has sent all that there is.
  enum class End { kOk, kUnavailable, kCancelled, kStayOpen };

  // `port` 0: any that is free.
  explicit FakeCoordinator(int port = 0);
  ~FakeCoordinator() override;

  std::string address() const;
  int port() const { return port_; }

  void AddJob(const v1::Job& job);
  // What submitted jobs are made from; their id, specification and state are set.
  void SetTemplate(const v1::Job& job);
  void SetCluster(const v1::Cluster& cluster);
  // What PlanJob answers.
  void SetPlan(const v1::PlanReport& report);
  // What GetTrace answers for every job that there is.
  void SetTrace(const v1::JobTrace& trace);
  // The next `count` calls fail with `status`.
  void FailNext(int count, const grpc::Status& status);
  // Every call of SubmitJob and PlanJob fails with `status`.
  void RefuseJobs(const grpc::Status& status);
  // What one call of WatchJob sends and how it ends. Calls use up the scripts in order; the last
  // one stays. Events at or before the asked revision are left out. The state of the last
  // StateChange of a script becomes that of the job.
  void AddWatch(std::vector<v1::JobEvent> events, End end);
  // Watches every write of WatchJob; must outlive this.
  void SetStalledCalls(StalledCalls* stalled);
  // What ReadWeights sends, and how it ends.
  void SetPages(std::vector<v1::TensorFrame> frames, const grpc::Status& end);
  // The next call of ReadWeights that is not told yet; after all of them SetPages counts.
  void SetPagesOnce(std::vector<v1::TensorFrame> frames, const grpc::Status& end);
  // When the last page has been sent, nothing more happens.
  void StallAfterPages();

  // The log of every job. Lines at or before the asked revision, and of other daemons, are left
  // out. With `follow` the stream breaks once after each line, as if the coordinator went away.
  void SetLog(std::vector<v1::LogLine> lines);

  std::vector<v1::SubmitJobRequest> submitted() const;
  std::vector<v1::WatchJobRequest> watched() const;
  std::vector<v1::CancelJobRequest> cancelled() const;
  std::vector<v1::ListJobsRequest> listed() const;
  std::vector<v1::PlanJobRequest> planned() const;
  int calls() const;

  std::vector<v1::DrainDaemonRequest> drained() const;

  // Of a worker that has job 7.
  grpc::Status DrainDaemon(grpc::ServerContext* context, const v1::DrainDaemonRequest* request,
                           v1::DrainDaemonResponse* response) override;
  grpc::Status SubmitJob(grpc::ServerContext* context, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override;
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::Job* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::Job* response) override;
  grpc::Status DeleteJob(grpc::ServerContext* context, const v1::DeleteJobRequest* request,
                         v1::DeleteJobResponse* response) override;
  grpc::Status StreamLogs(grpc::ServerContext* context, const v1::StreamLogsRequest* request,
                          grpc::ServerWriter<v1::LogLine>* writer) override;
  grpc::Status GetCluster(grpc::ServerContext* context, const v1::GetClusterRequest* request,
                          v1::Cluster* response) override;
  grpc::Status PlanJob(grpc::ServerContext* context, const v1::PlanJobRequest* request,
                       v1::PlanReport* response) override;
  grpc::Status GetTrace(grpc::ServerContext* context, const v1::GetTraceRequest* request,
                        v1::JobTrace* response) override;
  grpc::Status ReadWeights(grpc::ServerContext* context, const v1::ReadWeightsRequest* request,
                           grpc::ServerWriter<v1::TensorFrame>* writer) override;

 private:
  struct WatchScript {
    std::vector<v1::JobEvent> events;
    End end = End::kOk;
  };

  // Counts the call; an error when it is to fail.
  grpc::Status Enter();
  v1::Job* Find(const std::string& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until the client goes away or the server stops.
  void StayOpen(grpc::ServerContext* context);

  mutable Mutex mutex_;
  CondVar stopping_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<v1::Job> jobs_ ABSL_GUARDED_BY(mutex_);
  v1::Job template_ ABSL_GUARDED_BY(mutex_);
  v1::PlanReport plan_ ABSL_GUARDED_BY(mutex_);
  v1::JobTrace trace_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::LogLine> log_ ABSL_GUARDED_BY(mutex_);
  v1::Cluster cluster_ ABSL_GUARDED_BY(mutex_);
  int fail_next_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status failure_ ABSL_GUARDED_BY(mutex_);
  grpc::Status refusal_ ABSL_GUARDED_BY(mutex_);
  StalledCalls* stalled_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<WatchScript> watches_ ABSL_GUARDED_BY(mutex_);
  size_t next_watch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<v1::TensorFrame> pages_ ABSL_GUARDED_BY(mutex_);
  grpc::Status pages_end_ ABSL_GUARDED_BY(mutex_);
  struct PagesScript {
    std::vector<v1::TensorFrame> frames;
    grpc::Status end;
  };
  std::deque<PagesScript> pages_once_ ABSL_GUARDED_BY(mutex_);
  bool stall_after_pages_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<v1::SubmitJobRequest> submitted_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::WatchJobRequest> watched_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::CancelJobRequest> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::DrainDaemonRequest> drained_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ListJobsRequest> listed_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::PlanJobRequest> planned_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace sangam

#endif  // SANGAM_TESTS_CLIENT_FAKE_COORDINATOR_H_
