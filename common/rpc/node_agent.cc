#include "common/rpc/node_agent.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/job_log.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/coordinator_link.h"
#include "common/rpc/host_port.h"
#include "common/rpc/report_queue.h"
#include "proto/cluster_service.grpc.pb.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

constexpr absl::Duration kLeaveInDestructor = absl::Milliseconds(500);
constexpr absl::Duration kLookAtCancelled = absl::Milliseconds(100);
constexpr absl::Duration kLookAtLog = absl::Milliseconds(300);
constexpr size_t kLinesInCall = 128;
// After an answer without news that came at once.
constexpr absl::Duration kAskAgain = absl::Seconds(1);

// The lines as a report without a generation: they may be about one that is over.
v1::ReportRequest LogRequest(const JobLog::Batch& batch) {
  v1::ReportRequest request;
  request.set_job(batch.job);
  v1::LogReport* report = request.add_report()->mutable_log();
  for (const JobLog::Line& line : batch.lines) {
    v1::LogReport::Line* added = report->add_line();
    added->set_time_us(static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixMicros(line.time), 0)));
    added->set_level(std::string(LogLevelName(line.level)));
    added->set_text(line.text);
  }
  return request;
}

// Whether the coordinator has not answered, or not as one that is well: the same call again may do.
bool MayRepeat(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return true;
    default:
      return false;
  }
}

// Three threads: signs of life, reports, and the owner's callback.
class GrpcNodeAgent final : public NodeAgent {
 public:
  GrpcNodeAgent(Options options, OnAssignments on_assignments)
      : options_(std::move(options)),
        on_assignments_(std::move(on_assignments)),
        heartbeat_link_(options_.coordinator),
        report_link_(options_.coordinator),
        reports_(options_.max_reports) {}
  ~GrpcNodeAgent() override { Leave("the daemon ends", kLeaveInDestructor); }

  absl::Status RegisterAtStart();
  void StartThreads();

  void Report(uint64_t job, uint64_t generation, v1::JobReport report) override;
  void EndWaits() override;
  absl::Status stopped() const override;
  bool Drain(absl::Duration timeout) override;
  bool draining() const override;
  void Leave(const std::string& reason, absl::Duration deadline) override;
  std::string address() const override;

 private:
  const v1::DaemonIdentity& identity() const { return options_.registration.daemon(); }

  absl::Status Register(absl::Duration timeout);
  // One heartbeat; hands over what is new. *pause: how long to wait before the next one.
  absl::Status Heartbeat(uint64_t* known_revision, absl::Duration* pause);
  // Whether it is Drain that has ended a call, which is to be made again at once.
  bool TakeCut(const absl::Status& status);
  bool drained() const;
  absl::Duration lease() const;
  void HeartbeatLoop();
  void ReportLoop();
  // Delivers lines of the log; false when they wait for a better time.
  bool SendLog();
  void DeliverLoop();

  // Waits; ends early when the agent leaves, or only when it delivers no more reports.
  enum class Until { kLeaving, kClosing };
  void Pause(absl::Duration duration, Until until);
  void StopWith(const absl::Status& status);
  // Logs when the coordinator goes away and comes back.
  void NoteReachable(const absl::Status& status);

  const Options options_;
  const OnAssignments on_assignments_;
  // Two, so that the one can be closed while the other still delivers, and a long report does not
  // delay a sign of life.
  CoordinatorLink heartbeat_link_;
  CoordinatorLink report_link_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;      // no more heartbeats
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;      // no more reports
  bool waits_ended_ ABSL_GUARDED_BY(mutex_) = false;  // Report waits no more
  absl::Status stopped_ ABSL_GUARDED_BY(mutex_);
  bool reachable_ ABSL_GUARDED_BY(mutex_) = true;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool drained_ ABSL_GUARDED_BY(mutex_) = false;
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;         // Drain ends the heartbeat that is under way
  bool holds_jobs_ ABSL_GUARDED_BY(mutex_) = false;  // others than those whose weights it keeps
  absl::Duration last_answer_ ABSL_GUARDED_BY(mutex_);
  std::string address_ ABSL_GUARDED_BY(mutex_);
  absl::Duration lease_ ABSL_GUARDED_BY(mutex_);
  ReportQueue reports_ ABSL_GUARDED_BY(mutex_);
  // Whether lines of the log wait or are under way.
  bool LogWaits() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool log_waits_ ABSL_GUARDED_BY(mutex_) = false;
  // Lines that are under way. Of the reports' thread.
  v1::ReportRequest log_request_;
  // What the callback has not seen yet.
  std::optional<std::vector<v1::Assignment>> assignments_ ABSL_GUARDED_BY(mutex_);

  std::thread heartbeat_thread_;
  std::thread report_thread_;
  std::thread deliver_thread_;
};

absl::Status GrpcNodeAgent::Register(absl::Duration timeout) {
  v1::RegisterResponse response;
  RETURN_IF_ERROR(heartbeat_link_.Call(&CoordinatorLink::Stub::Register, options_.registration,
                                       timeout, &response));
  MutexLock lock(&mutex_);
  address_ = response.address();
  lease_ = absl::Milliseconds(std::max<uint64_t>(response.lease_ms(), 1));
  return absl::OkStatus();
}

absl::Status GrpcNodeAgent::RegisterAtStart() {
  const Clock& clock = Clock::Real();
  const absl::Duration begin = clock.Steady();
  Backoff backoff({}, identity().incarnation());
  for (int tries = 1;; ++tries) {
    const absl::Duration left = options_.start_deadline - (clock.Steady() - begin);
    absl::Status status =
        Register(std::max(std::min(left, options_.call_deadline), absl::Milliseconds(1)));
    if (status.ok()) return status;
    const absl::Duration spent = clock.Steady() - begin;
    const bool name_taken = absl::IsAlreadyExists(status);
    if (absl::IsUnimplemented(status)) {
      return absl::FailedPreconditionError(
          absl::StrCat(options_.coordinator,
                       " answers, but is no coordinator; is it a sangam-server that was "
                       "started with --coordinator itself?"));
    }
    if (name_taken ? spent >= options_.name_patience : !MayRepeat(status)) return status;
    if (spent >= options_.start_deadline) {
      if (name_taken) return status;
      return absl::UnavailableError(absl::StrFormat(
          "the coordinator at %s cannot be reached: %d tries in %.1f s, the last one ended with %s",
          options_.coordinator, tries, absl::ToDoubleSeconds(spent), status.ToString()));
    }
    if (tries == 1) {
      LogWarning(name_taken ? "name is taken, waiting for it" : "coordinator cannot be reached yet",
                 "coordinator=%s error=%s", options_.coordinator, LogValue(status.ToString()));
    }
    const absl::Duration wake =
        std::min(clock.Steady() + backoff.Next(), begin + options_.start_deadline);
    while (clock.Steady() < wake) {
      if (options_.cancelled && options_.cancelled()) {
        return absl::CancelledError("stopped before the coordinator was reached");
      }
      Pause(std::min(wake - clock.Steady(), kLookAtCancelled), Until::kLeaving);
    }
  }
}

void GrpcNodeAgent::StartThreads() {
  heartbeat_thread_ = std::thread([this] { HeartbeatLoop(); });
  report_thread_ = std::thread([this] { ReportLoop(); });
  deliver_thread_ = std::thread([this] { DeliverLoop(); });
}

absl::Status GrpcNodeAgent::Heartbeat(uint64_t* known_revision, absl::Duration* pause) {
  absl::Duration third;
  v1::HeartbeatRequest request;
  {
    MutexLock lock(&mutex_);
    third = lease_ / 3;
    request.set_draining(draining_);
  }
  *request.mutable_daemon() = identity();
  request.set_known_revision(*known_revision);
  request.set_max_wait_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(third)));
  v1::HeartbeatResponse response;
  const absl::Duration begin = Clock::Real().Steady();
  // Within a lease there is time for a second try when the answer to the first one is lost.
  const absl::Duration timeout =
      third + std::min(options_.call_deadline, std::max(third, absl::Milliseconds(100)));
  RETURN_IF_ERROR(
      heartbeat_link_.Call(&CoordinatorLink::Stub::Heartbeat, request, timeout, &response));
  MutexLock lock(&mutex_);
  last_answer_ = Clock::Real().Steady();
  if (response.drained()) {
    drained_ = true;
    changed_.SignalAll();
  }
  if (response.unchanged()) {
    // A coordinator with very many daemons waits with some of them only; the others ask now and
    // then.
    if (last_answer_ - begin < third / 2) *pause = std::min(third, kAskAgain);
    return absl::OkStatus();
  }
  *known_revision = response.revision();
  holds_jobs_ =
      std::any_of(response.assignment().begin(), response.assignment().end(),
                  [](const v1::Assignment& held) { return held.phase() != v1::Assignment::HOLD; });
  assignments_.emplace(std::make_move_iterator(response.mutable_assignment()->begin()),
                       std::make_move_iterator(response.mutable_assignment()->end()));
  changed_.SignalAll();
  return absl::OkStatus();
}

bool GrpcNodeAgent::TakeCut(const absl::Status& status) {
  MutexLock lock(&mutex_);
  // It may have begun before or after it was to say that the daemon drains.
  return absl::IsCancelled(status) && std::exchange(cut_, false);
}

bool GrpcNodeAgent::drained() const {
  MutexLock lock(&mutex_);
  return drained_;
}

absl::Duration GrpcNodeAgent::lease() const {
  MutexLock lock(&mutex_);
  return lease_;
}

void GrpcNodeAgent::HeartbeatLoop() {
  // A report may get through while this thread pauses; the coordinator then wants the next sign of
  // life within a lease.
  Backoff::Options pauses;
  {
    MutexLock lock(&mutex_);
    pauses.maximum = std::min(pauses.maximum, lease_ / 4);
    pauses.initial = std::min(pauses.initial, pauses.maximum);
  }
  Backoff backoff(pauses, identity().incarnation() + 1);
  bool registered = true;
  uint64_t known_revision = 0;
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (leaving_ || !stopped_.ok()) return;
    }
    const bool was_registered = registered;
    absl::Duration pause;
    const absl::Status status =
        registered ? Heartbeat(&known_revision, &pause) : Register(options_.call_deadline);
    if (was_registered && absl::IsNotFound(status)) {
      LogWarning("registering again", "coordinator=%s reason=%s", options_.coordinator,
                 LogValue(status.message()));
      registered = false;
      // A coordinator that forgets us at once must not keep us busy.
      if (known_revision == 0) Pause(backoff.Next(), Until::kLeaving);
      continue;
    }
    if (TakeCut(status)) continue;
    NoteReachable(status);
    if (status.ok()) {
      // Of a daemon that is drained a coordinator has nothing to wait for: it answers at once.
      if (was_registered && drained()) Pause(lease() / 3, Until::kLeaving);
      if (was_registered) backoff.Reset();
      if (!was_registered) known_revision = 0;
      registered = true;
      if (pause > absl::ZeroDuration()) Pause(pause, Until::kLeaving);
    } else if (MayRepeat(status)) {
      Pause(backoff.Next(), Until::kLeaving);
    } else {
      StopWith(status);
      return;
    }
  }
}

void GrpcNodeAgent::ReportLoop() {
  Backoff backoff({}, identity().incarnation() + 2);
  for (;;) {
    v1::ReportRequest request;
    {
      MutexLock lock(&mutex_);
      while (reports_.empty() && !LogWaits() && !closing_ && stopped_.ok()) {
        changed_.WaitFor(&mutex_, options_.log == nullptr ? absl::Seconds(10) : kLookAtLog);
      }
      if (closing_ || !stopped_.ok()) return;
      if (!reports_.empty()) request = reports_.Front();
    }
    if (request.report_size() == 0) {
      if (SendLog()) {
        backoff.Reset();
      } else {
        Pause(backoff.Next(), Until::kClosing);
      }
      continue;
    }
    *request.mutable_daemon() = identity();
    v1::ReportResponse response;
    const absl::Status status = report_link_.Call(&CoordinatorLink::Stub::Report, request,
                                                  options_.call_deadline, &response);
    // Not registered: the other thread sees to it. Until then the same reports wait.
    if (MayRepeat(status) || absl::IsNotFound(status)) {
      NoteReachable(status);
      Pause(backoff.Next(), Until::kClosing);
      continue;
    }
    backoff.Reset();
    if (absl::IsAborted(status)) {
      LogInfo("reports dropped", "job=%d generation=%d count=%d reason=%s", request.job(),
              request.generation(), request.report_size(), LogValue(status.message()));
    } else if (!status.ok()) {
      LogError("reports refused", "job=%d generation=%d count=%d error=%s", request.job(),
               request.generation(), request.report_size(), LogValue(status.ToString()));
    }
    MutexLock lock(&mutex_);
    reports_.Remove(request.report_size());
    changed_.SignalAll();
  }
}

bool GrpcNodeAgent::SendLog() {
  if (log_request_.report_size() == 0) log_request_ = LogRequest(options_.log->Take(kLinesInCall));
  *log_request_.mutable_daemon() = identity();
  v1::ReportResponse response;
  const absl::Status status = report_link_.Call(&CoordinatorLink::Stub::Report, log_request_,
                                                options_.call_deadline, &response);
  NoteReachable(status);
  if (MayRepeat(status) || absl::IsNotFound(status)) return false;
  // What is refused is lost: not a word about it, or that would be the next line.
  MutexLock lock(&mutex_);
  log_request_.Clear();
  log_waits_ = false;
  changed_.SignalAll();
  return true;
}

bool GrpcNodeAgent::LogWaits() {
  if (options_.log != nullptr && !options_.log->empty()) log_waits_ = true;
  return log_waits_;
}

void GrpcNodeAgent::DeliverLoop() {
  for (;;) {
    std::vector<v1::Assignment> assignments;
    {
      MutexLock lock(&mutex_);
      while (!assignments_.has_value() && !leaving_) {
        changed_.WaitFor(&mutex_, absl::Seconds(10));
      }
      if (leaving_) return;
      assignments = *std::move(assignments_);
      assignments_.reset();
    }
    on_assignments_(assignments);
  }
}

void GrpcNodeAgent::Report(uint64_t job, uint64_t generation, v1::JobReport report) {
  MutexLock lock(&mutex_);
  bool waits = false;
  while (stopped_.ok() && !reports_.Add(job, generation, report)) {
    if (leaving_ || waits_ended_) return;
    if (!waits) {
      LogWarning("too many reports wait for the coordinator, standing still",
                 "coordinator=%s waiting=%d job=%d", options_.coordinator, reports_.size(), job);
      waits = true;
    }
    changed_.WaitFor(&mutex_, absl::Seconds(10));
  }
  changed_.SignalAll();
}

void GrpcNodeAgent::EndWaits() {
  MutexLock lock(&mutex_);
  waits_ended_ = true;
  changed_.SignalAll();
}

absl::Status GrpcNodeAgent::stopped() const {
  MutexLock lock(&mutex_);
  return stopped_;
}

std::string GrpcNodeAgent::address() const {
  MutexLock lock(&mutex_);
  return address_;
}

bool GrpcNodeAgent::draining() const {
  MutexLock lock(&mutex_);
  return draining_;
}

bool GrpcNodeAgent::Drain(absl::Duration timeout) {
  const absl::Duration begin = Clock::Real().Steady();
  {
    MutexLock lock(&mutex_);
    draining_ = true;
    cut_ = true;
  }
  LogInfo("drains", "coordinator=%s timeout=%s", options_.coordinator,
          absl::FormatDuration(timeout));
  heartbeat_link_.EndCalls();
  std::string why;
  {
    MutexLock lock(&mutex_);
    while (why.empty()) {
      const absl::Duration now = Clock::Real().Steady();
      if (drained_) return true;
      if (!stopped_.ok()) {
        why = "the agent has stopped";
      } else if (!reachable_ && !holds_jobs_) {
        return true;
      } else if (!reachable_ && now - std::max(begin, last_answer_) >= lease_) {
        // It counts as lost by now, and its jobs know as much.
        why = "the coordinator cannot be reached";
      } else if (now - begin >= timeout) {
        why = absl::StrCat("jobs still need it after ", absl::FormatDuration(timeout));
      } else {
        changed_.WaitFor(&mutex_, std::min(timeout - (now - begin), kLookAtCancelled));
      }
    }
  }
  LogWarning("leaves before it is drained", "coordinator=%s why=%s", options_.coordinator,
             LogValue(why));
  return false;
}

void GrpcNodeAgent::Leave(const std::string& reason, absl::Duration deadline) {
  const absl::Duration end = Clock::Real().Steady() + deadline;
  const auto left = [end] { return std::max(end - Clock::Real().Steady(), absl::Milliseconds(1)); };
  if (!heartbeat_thread_.joinable()) return;
  {
    MutexLock lock(&mutex_);
    leaving_ = true;
    changed_.SignalAll();
  }
  // A heartbeat after the goodbye would register again.
  heartbeat_link_.Close();
  heartbeat_thread_.join();
  bool well = true;
  {
    MutexLock lock(&mutex_);
    while ((!reports_.empty() || LogWaits()) && stopped_.ok() && Clock::Real().Steady() < end) {
      changed_.WaitFor(&mutex_, left());
    }
    well = stopped_.ok();
    closing_ = true;
    changed_.SignalAll();
  }
  if (well) {
    v1::LeaveRequest request;
    *request.mutable_daemon() = identity();
    request.set_reason(reason);
    v1::LeaveResponse response;
    const absl::Status status =
        report_link_.Call(&CoordinatorLink::Stub::Leave, request, left(), &response);
    if (!status.ok()) LogWarning("no goodbye", "error=%s", LogValue(status.ToString()));
  }
  report_link_.Close();
  report_thread_.join();
  deliver_thread_.join();
}

void GrpcNodeAgent::Pause(absl::Duration duration, Until until) {
  const absl::Duration end = Clock::Real().Steady() + duration;
  MutexLock lock(&mutex_);
  for (;;) {
    const absl::Duration left = end - Clock::Real().Steady();
    const bool ends = closing_ || (until == Until::kLeaving && leaving_);
    if (ends || left <= absl::ZeroDuration()) return;
    changed_.WaitFor(&mutex_, left);
  }
}

void GrpcNodeAgent::StopWith(const absl::Status& status) {
  LogError("node agent stops", "coordinator=%s reason=%s", options_.coordinator,
           LogValue(status.ToString()));
  MutexLock lock(&mutex_);
  if (stopped_.ok()) stopped_ = status;
  changed_.SignalAll();
}

void GrpcNodeAgent::NoteReachable(const absl::Status& status) {
  const bool reachable = !MayRepeat(status);
  {
    MutexLock lock(&mutex_);
    if (leaving_ || reachable == reachable_) return;
    reachable_ = reachable;
  }
  if (reachable) {
    LogInfo("coordinator is back", "coordinator=%s", options_.coordinator);
  } else {
    LogWarning("coordinator cannot be reached, trying on", "coordinator=%s error=%s",
               options_.coordinator, LogValue(status.ToString()));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodeAgent>> NodeAgent::Start(Options options,
                                                            OnAssignments on_assignments) {
  RETURN_IF_ERROR(ParseTarget(options.coordinator).status(), "the coordinator's address");
  auto agent = std::make_unique<GrpcNodeAgent>(std::move(options), std::move(on_assignments));
  RETURN_IF_ERROR(agent->RegisterAtStart());
  agent->StartThreads();
  return agent;
}

}  // namespace sangam
