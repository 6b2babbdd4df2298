#include "tests/common/rpc/fake_cluster.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.grpc.pb.h"

namespace sangam {
namespace {

std::string KindOf(const v1::JobReport& report) {
  switch (report.kind_case()) {
    case v1::JobReport::kReady:
      return "ready";
    case v1::JobReport::kFailed:
      return absl::StrCat("failed ", report.failed().message());
    case v1::JobReport::kStep:
      return absl::StrCat("step ", report.step().step());
    case v1::JobReport::kEvaluation:
      return "evaluation";
    case v1::JobReport::kLog:
      return absl::StrCat("log ", report.log().line(0).text());
    default:
      return "finished";
  }
}

}  // namespace

FakeCluster::FakeCluster(const std::string& listen) {
  ServerRunner::Options options;
  options.listen = listen;
  // A port that a server has just left may take a moment to be free.
  for (int tries = 0; tries < 100 && server_ == nullptr; ++tries) {
    auto server = ServerRunner::Start(
        options, [this](grpc::ServerBuilder* builder) { builder->RegisterService(this); });
    if (server.ok()) server_ = *std::move(server);
  }
  EXPECT_NE(server_, nullptr) << listen;
}

FakeCluster::~FakeCluster() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    changed_.SignalAll();
  }
  server_->Shutdown(absl::ZeroDuration());
}

std::string FakeCluster::address() const { return ToString(server_->address()); }

void FakeCluster::SetLease(absl::Duration lease) {
  MutexLock lock(&mutex_);
  lease_ = lease;
}

void FakeCluster::FailRegister(std::vector<grpc::StatusCode> codes) {
  MutexLock lock(&mutex_);
  register_codes_.assign(codes.begin(), codes.end());
}
void FakeCluster::FailHeartbeat(std::vector<grpc::StatusCode> codes) {
  MutexLock lock(&mutex_);
  heartbeat_codes_.assign(codes.begin(), codes.end());
  changed_.SignalAll();
}
void FakeCluster::FailReport(std::vector<grpc::StatusCode> codes) {
  MutexLock lock(&mutex_);
  report_codes_.assign(codes.begin(), codes.end());
}

void FakeCluster::Assign(const std::vector<v1::Assignment>& assignments) {
  MutexLock lock(&mutex_);
  assignments_ = assignments;
  ++revision_;
  changed_.SignalAll();
}

FakeCluster::Heard FakeCluster::heard() const {
  MutexLock lock(&mutex_);
  return heard_;
}

void FakeCluster::AnswerAtOnce() {
  MutexLock lock(&mutex_);
  at_once_ = true;
}

int FakeCluster::heartbeats() const {
  MutexLock lock(&mutex_);
  return heartbeats_;
}

bool FakeCluster::WaitFor(const std::function<bool(const Heard&)>& done) const {
  const absl::Duration deadline = Clock::Real().Steady() + absl::Seconds(20);
  MutexLock lock(&mutex_);
  while (!done(heard_)) {
    const absl::Duration left = deadline - Clock::Real().Steady();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitFor(&mutex_, left);
  }
  return true;
}

bool FakeCluster::WaitUntilHeard(const std::string& what) const {
  return WaitFor([&what](const Heard& heard) {
    return std::find(heard.begin(), heard.end(), what) != heard.end();
  });
}

bool FakeCluster::WaitForHeartbeats(int count) const {
  const absl::Duration deadline = Clock::Real().Steady() + absl::Seconds(20);
  MutexLock lock(&mutex_);
  while (heartbeats_ < count) {
    const absl::Duration left = deadline - Clock::Real().Steady();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitFor(&mutex_, left);
  }
  return true;
}

grpc::Status FakeCluster::Register(grpc::ServerContext*, const v1::RegisterRequest* request,
                                   v1::RegisterResponse* response) {
  MutexLock lock(&mutex_);
  Note(absl::StrCat("register ", request->daemon().name(), "/", request->daemon().incarnation()));
  response->set_lease_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(lease_)));
  response->set_address("seen:7071");
  return Next(&register_codes_);
}

grpc::Status FakeCluster::Heartbeat(grpc::ServerContext* context,
                                    const v1::HeartbeatRequest* request,
                                    v1::HeartbeatResponse* response) {
  MutexLock lock(&mutex_);
  const absl::Duration longest = std::min(absl::Milliseconds(request->max_wait_ms()), lease_ / 3);
  const absl::Duration deadline = Clock::Real().Steady() + longest;
  ++heartbeats_;
  if (request->draining() && !std::exchange(draining_, true)) {
    Note(absl::StrCat("drains ", request->daemon().name()));
  }
  changed_.SignalAll();
  for (;;) {
    response->set_drained(request->draining() && assignments_.empty());
    if (response->drained()) break;
    if (!heartbeat_codes_.empty()) return Next(&heartbeat_codes_);
    if (ending_ || context->IsCancelled()) return grpc::Status::CANCELLED;
    const absl::Duration left = deadline - Clock::Real().Steady();
    if (at_once_ || revision_ != request->known_revision() || left <= absl::ZeroDuration()) break;
    changed_.WaitFor(&mutex_, std::min(left, absl::Milliseconds(50)));
  }
  response->set_revision(revision_);
  response->set_unchanged(revision_ == request->known_revision());
  if (!response->unchanged()) {
    for (const v1::Assignment& assignment : assignments_) *response->add_assignment() = assignment;
  }
  return grpc::Status::OK;
}

grpc::Status FakeCluster::Report(grpc::ServerContext*, const v1::ReportRequest* request,
                                 v1::ReportResponse*) {
  MutexLock lock(&mutex_);
  const grpc::Status status = Next(&report_codes_);
  for (const v1::JobReport& report : request->report()) {
    Note(absl::StrCat(status.ok() ? "" : "refused ", "report ", request->job(), "/",
                      request->generation(), " ", KindOf(report)));
  }
  return status;
}

grpc::Status FakeCluster::Leave(grpc::ServerContext*, const v1::LeaveRequest* request,
                                v1::LeaveResponse*) {
  MutexLock lock(&mutex_);
  Note(absl::StrCat("leave ", request->daemon().name(), " ", request->reason()));
  return grpc::Status::OK;
}

grpc::Status FakeCluster::Next(Codes* codes) {
  if (codes->empty()) return grpc::Status::OK;
  const grpc::StatusCode code = codes->front();
  codes->pop_front();
  return grpc::Status(code, "told to");
}

void FakeCluster::Note(std::string what) {
  heard_.push_back(std::move(what));
  changed_.SignalAll();
}

}  // namespace sangam
