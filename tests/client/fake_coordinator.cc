#include "tests/client/fake_coordinator.h"

#include <grpc/grpc.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/rpc/stalled_calls.h"

namespace sangam {

FakeCoordinator::FakeCoordinator(int port) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(),
                           &port_);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(static_cast<v1::JobService::Service*>(this));
  builder.RegisterService(static_cast<v1::AdminService::Service*>(this));
  builder.RegisterService(static_cast<v1::ParameterService::Service*>(this));
  server_ = builder.BuildAndStart();
  SANGAM_CHECK(server_ != nullptr && port_ != 0);
}

FakeCoordinator::~FakeCoordinator() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    stopping_.SignalAll();
  }
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
}

std::string FakeCoordinator::address() const { return absl::StrCat("127.0.0.1:", port_); }

void FakeCoordinator::AddJob(const v1::Job& job) {
  MutexLock lock(&mutex_);
  jobs_.push_back(job);
}

void FakeCoordinator::SetTemplate(const v1::Job& job) {
  MutexLock lock(&mutex_);
  template_ = job;
}

void FakeCoordinator::SetCluster(const v1::Cluster& cluster) {
  MutexLock lock(&mutex_);
  cluster_ = cluster;
}

void FakeCoordinator::SetPlan(const v1::PlanReport& report) {
  MutexLock lock(&mutex_);
  plan_ = report;
}

void FakeCoordinator::SetTrace(const v1::JobTrace& trace) {
  MutexLock lock(&mutex_);
  trace_ = trace;
}

void FakeCoordinator::SetLog(std::vector<v1::LogLine> lines) {
  MutexLock lock(&mutex_);
  log_ = std::move(lines);
}

void FakeCoordinator::FailNext(int count, const grpc::Status& status) {
  MutexLock lock(&mutex_);
  fail_next_ = count;
  failure_ = status;
}

void FakeCoordinator::RefuseJobs(const grpc::Status& status) {
  MutexLock lock(&mutex_);
  refusal_ = status;
}

void FakeCoordinator::AddWatch(std::vector<v1::JobEvent> events, End end) {
  MutexLock lock(&mutex_);
  watches_.push_back({std::move(events), end});
}

void FakeCoordinator::SetPages(std::vector<v1::TensorFrame> frames, const grpc::Status& end) {
  MutexLock lock(&mutex_);
  pages_ = std::move(frames);
  pages_end_ = end;
}

void FakeCoordinator::SetPagesOnce(std::vector<v1::TensorFrame> frames, const grpc::Status& end) {
  MutexLock lock(&mutex_);
  pages_once_.push_back({std::move(frames), end});
}

void FakeCoordinator::SetStalledCalls(StalledCalls* stalled) {
  MutexLock lock(&mutex_);
  stalled_ = stalled;
}

void FakeCoordinator::StallAfterPages() {
  MutexLock lock(&mutex_);
  stall_after_pages_ = true;
}

std::vector<v1::SubmitJobRequest> FakeCoordinator::submitted() const {
  MutexLock lock(&mutex_);
  return submitted_;
}

std::vector<v1::WatchJobRequest> FakeCoordinator::watched() const {
  MutexLock lock(&mutex_);
  return watched_;
}

std::vector<v1::CancelJobRequest> FakeCoordinator::cancelled() const {
  MutexLock lock(&mutex_);
  return cancelled_;
}

std::vector<v1::DrainDaemonRequest> FakeCoordinator::drained() const {
  MutexLock lock(&mutex_);
  return drained_;
}

grpc::Status FakeCoordinator::DrainDaemon(grpc::ServerContext* /*context*/,
                                          const v1::DrainDaemonRequest* request,
                                          v1::DrainDaemonResponse* response) {
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  drained_.push_back(*request);
  response->set_role("worker");
  response->add_job(7);
  return grpc::Status::OK;
}

std::vector<v1::ListJobsRequest> FakeCoordinator::listed() const {
  MutexLock lock(&mutex_);
  return listed_;
}

std::vector<v1::PlanJobRequest> FakeCoordinator::planned() const {
  MutexLock lock(&mutex_);
  return planned_;
}

int FakeCoordinator::calls() const {
  MutexLock lock(&mutex_);
  return calls_;
}

grpc::Status FakeCoordinator::Enter() {
  MutexLock lock(&mutex_);
  ++calls_;
  if (fail_next_ == 0) return grpc::Status::OK;
  --fail_next_;
  return failure_;
}

v1::Job* FakeCoordinator::Find(const std::string& job) {
  // The newest of a name.
  const auto found = std::find_if(jobs_.rbegin(), jobs_.rend(), [&job](const v1::Job& j) {
    return absl::StrCat(j.id()) == job || j.spec().name() == job;
  });
  return found == jobs_.rend() ? nullptr : &*found;
}

void FakeCoordinator::StayOpen(grpc::ServerContext* context) {
  MutexLock lock(&mutex_);
  while (!stop_ && !context->IsCancelled()) stopping_.WaitFor(&mutex_, absl::Milliseconds(5));
}

grpc::Status FakeCoordinator::SubmitJob(grpc::ServerContext* /*context*/,
                                        const v1::SubmitJobRequest* request,
                                        v1::SubmitJobResponse* response) {
  {
    MutexLock lock(&mutex_);
    submitted_.push_back(*request);
  }
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  if (!refusal_.ok()) return refusal_;
  v1::Job job = template_;
  *job.mutable_spec() = request->spec();
  if (!request->validate_only()) {
    job.set_id(jobs_.size() + 1);
    job.set_state(v1::QUEUED);
    job.add_history()->set_state(v1::QUEUED);
    jobs_.push_back(job);
  }
  *response->mutable_job() = job;
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::GetJob(grpc::ServerContext* /*context*/,
                                     const v1::GetJobRequest* request, v1::Job* response) {
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  const v1::Job* job = Find(request->job());
  if (job == nullptr) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, absl::StrCat("no job ", request->job()));
  }
  *response = *job;
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::ListJobs(grpc::ServerContext* /*context*/,
                                       const v1::ListJobsRequest* request,
                                       v1::ListJobsResponse* response) {
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  listed_.push_back(*request);
  const uint32_t page = request->page_size() == 0 ? 100 : request->page_size();
  for (auto job = jobs_.rbegin(); job != jobs_.rend(); ++job) {
    if (request->before_id() != 0 && job->id() >= request->before_id()) continue;
    const auto& states = request->state();
    if (!states.empty() && std::find(states.begin(), states.end(), job->state()) == states.end()) {
      continue;
    }
    if (static_cast<uint32_t>(response->job_size()) == page) {
      response->set_more(true);
      break;
    }
    *response->add_job() = *job;
  }
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::WatchJob(grpc::ServerContext* context,
                                       const v1::WatchJobRequest* request,
                                       grpc::ServerWriter<v1::JobEvent>* writer) {
  {
    MutexLock lock(&mutex_);
    watched_.push_back(*request);
  }
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  WatchScript script;
  StalledCalls* stalled = nullptr;
  {
    MutexLock lock(&mutex_);
    stalled = stalled_;
    v1::Job* job = Find(request->job());
    if (job == nullptr) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
    if (watches_.empty()) return grpc::Status::OK;
    script = watches_[std::min(next_watch_, watches_.size() - 1)];
    ++next_watch_;
    for (const v1::JobEvent& event : script.events) {
      if (!event.has_state()) continue;
      job->set_state(event.state().state());
      job->set_reason(event.state().reason());
    }
  }
  for (const v1::JobEvent& event : script.events) {
    if (event.revision() <= request->after_revision()) continue;
    const StalledCalls::Write write(stalled, context, "WatchJob");
    if (!writer->Write(event)) return grpc::Status::CANCELLED;
  }
  if (script.end == End::kCancelled) return grpc::Status::CANCELLED;
  if (script.end == End::kOk) return grpc::Status::OK;
  if (script.end == End::kUnavailable) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "scripted");
  }
  StayOpen(context);
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "stopping");
}

grpc::Status FakeCoordinator::CancelJob(grpc::ServerContext* /*context*/,
                                        const v1::CancelJobRequest* request, v1::Job* response) {
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  cancelled_.push_back(*request);
  v1::Job* job = Find(request->job());
  if (job == nullptr) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
  job->set_state(v1::CANCELLED);
  job->set_reason(request->reason());
  *response = *job;
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::DeleteJob(grpc::ServerContext* /*context*/,
                                        const v1::DeleteJobRequest* request,
                                        v1::DeleteJobResponse* /*response*/) {
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  const v1::Job* job = Find(request->job());
  if (job == nullptr) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
  jobs_.erase(jobs_.begin() + (job - jobs_.data()));
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::StreamLogs(grpc::ServerContext* /*context*/,
                                         const v1::StreamLogsRequest* request,
                                         grpc::ServerWriter<v1::LogLine>* writer) {
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  std::vector<v1::LogLine> lines;
  {
    MutexLock lock(&mutex_);
    lines = log_;
  }
  for (const v1::LogLine& line : lines) {
    if (line.revision() <= request->after_revision()) continue;
    if (!request->daemon().empty() && line.daemon() != request->daemon()) continue;
    writer->Write(line);
    if (request->follow()) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "scripted");
  }
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::GetCluster(grpc::ServerContext* /*context*/,
                                         const v1::GetClusterRequest* /*request*/,
                                         v1::Cluster* response) {
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  *response = cluster_;
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::PlanJob(grpc::ServerContext* /*context*/,
                                      const v1::PlanJobRequest* request, v1::PlanReport* response) {
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  planned_.push_back(*request);
  if (!refusal_.ok()) return refusal_;
  *response = plan_;
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::GetTrace(grpc::ServerContext* /*context*/,
                                       const v1::GetTraceRequest* request, v1::JobTrace* response) {
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  if (Find(request->job()) == nullptr) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, absl::StrCat("no job ", request->job()));
  }
  *response = trace_;
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::ReadWeights(grpc::ServerContext* context,
                                          const v1::ReadWeightsRequest* /*request*/,
                                          grpc::ServerWriter<v1::TensorFrame>* writer) {
  const grpc::Status status = Enter();
  if (!status.ok()) return status;
  std::vector<v1::TensorFrame> pages;
  grpc::Status end;
  bool stall = false;
  {
    MutexLock lock(&mutex_);
    pages = pages_;
    end = pages_end_;
    stall = stall_after_pages_;
    if (!pages_once_.empty()) {
      pages = std::move(pages_once_.front().frames);
      end = pages_once_.front().end;
      pages_once_.pop_front();
    }
  }
  for (const v1::TensorFrame& page : pages) writer->Write(page);
  if (stall) StayOpen(context);
  return end;
}

}  // namespace sangam
