// Which of a control plane's jobs starts next, and what it is planned for.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/plan/server_memory.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "server/core/assignment_board.h"
#include "server/core/control_plane.h"
#include "server/core/daemon_key.h"
#include "server/core/job_forecast.h"
#include "server/core/planner.h"
#include "server/core/scheduler.h"
#include "server/core/shortened.h"

namespace sangam {
namespace {

constexpr size_t kMaxReasonBytes = 4096;

v1::Precision PrecisionOf(const v1::JobSpec& spec) {
  return spec.precision() == v1::PRECISION_UNSPECIFIED ? v1::FP32 : spec.precision();
}

QueuedJob DemandOf(uint64_t id, const v1::JobSpec& spec, uint64_t server_bytes) {
  return {id,
          spec.name(),
          spec.resources().workers(),
          spec.resources().servers(),
          spec.priority(),
          server_bytes,
          spec.resources().backend(),
          PrecisionOf(spec)};
}

std::vector<v1::Precision> NativePrecisions(const v1::RegisterRequest& worker) {
  std::vector<v1::Precision> native;
  for (const int precision : worker.native_precision()) {
    native.push_back(static_cast<v1::Precision>(precision));
  }
  return native;
}

// A CPU has no name, but kernels of one kind or another.
const std::string& DeviceOf(const v1::RegisterRequest& worker) {
  const v1::DeviceFacts& device = worker.device();
  return device.name().empty() ? device.compute_capability() : device.name();
}

CandidateDaemon CandidateOf(const DaemonKey& key, const v1::RegisterRequest& registration,
                            size_t jobs_held) {
  return {key.name,
          jobs_held,
          key.role == v1::SERVER ? registration.memory_bytes() : 0,
          registration.backend(),
          DeviceOf(registration),
          NativePrecisions(registration)};
}

// The same processes in the same order.
bool AreSame(const std::vector<ChosenDaemon>& a, const std::vector<ChosenDaemon>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const ChosenDaemon& one, const ChosenDaemon& other) {
                      return one.name == other.name && one.incarnation == other.incarnation;
                    });
}

}  // namespace

std::string ControlPlane::KindOf(const v1::JobSpec& spec, const std::string& worker,
                                 uint64_t incarnation) const {
  const auto found = members_.daemons().find({v1::WORKER, worker});
  if (found == members_.daemons().end()) return "";
  // Another process of the name may compute with something else.
  if (found->second.registration.daemon().incarnation() != incarnation) return "";
  return WorkerKind(CandidateOf(found->first, found->second.registration, 0), PrecisionOf(spec));
}

bool ControlPlane::HasWorkersOfKind(const v1::JobSpec& spec, const std::string& kind) const {
  const std::vector<CandidateDaemon> workers = Candidates(v1::WORKER);
  const auto count =
      std::count_if(workers.begin(), workers.end(), [&](const CandidateDaemon& worker) {
        const std::string& backend = spec.resources().backend();
        return (backend.empty() || worker.backend == backend) &&
               IsSameKind(WorkerKind(worker, PrecisionOf(spec)), kind);
      });
  return static_cast<uint64_t>(count) >= spec.resources().workers();
}

ClusterView ControlPlane::ViewFor(const JobTable::Submission& submission) const {
  const QueuedJob demand = DemandOf(0, submission.spec, 0);
  std::vector<const v1::RegisterRequest*> workers;
  for (const std::string& name : LikelyWorkers(demand, Candidates(v1::WORKER))) {
    workers.push_back(&RegistrationOf(v1::WORKER, name));
  }
  return ViewOf(workers, options_.link_bytes_per_second, block_times_, submission.spec,
                submission.layout);
}

absl::Status ControlPlane::CheckAdmission(const JobTable::Submission& submission,
                                          bool await_daemons) const {
  const QueuedJob demand =
      DemandOf(0, submission.spec, LargestServerBytes(submission.spec, submission.layout));
  const std::vector<CandidateDaemon> servers = Candidates(v1::SERVER);
  std::vector<std::string> reasons;
  if (!await_daemons) reasons = LackingDaemons(demand, Candidates(v1::WORKER), servers);
  if (std::string lacking = LackingMemory(demand, servers); !lacking.empty()) {
    reasons.push_back(std::move(lacking));
  }
  if (reasons.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrJoin(reasons, "\n"));
}

std::vector<CandidateDaemon> ControlPlane::Candidates(v1::DaemonRole role) const {
  std::vector<CandidateDaemon> candidates;
  for (const auto& [key, daemon] : members_.daemons()) {
    if (key.role != role || !daemon.alive || !daemon.fault.empty() || !daemon.draining.empty()) {
      continue;
    }
    const AssignmentBoard::Entry* entry = board_.Get(key);
    candidates.push_back(
        CandidateOf(key, daemon.registration, entry == nullptr ? 0 : entry->assignments.size()));
  }
  return candidates;
}

ClusterSnapshot ControlPlane::Snapshot() {
  ClusterSnapshot snapshot;
  std::map<uint64_t, uint64_t> queued_bytes;
  for (const uint64_t id : jobs_.Queued()) {
    const v1::Job& job = *jobs_.Get(id);
    const auto known = queued_bytes_.find(id);
    queued_bytes[id] =
        known != queued_bytes_.end() ? known->second : LargestServerBytes(job.spec(), job.layout());
    const auto postponed = postponed_.find(id);
    if (postponed != postponed_.end() && postponed->second == roster_) continue;
    snapshot.queued.push_back(DemandOf(id, job.spec(), queued_bytes[id]));
    snapshot.queued.back().owner = job.owner();
    // It may be the newest one that the job goes on from, and an older one may go for it.
    if (writing_.count(id) != 0) {
      snapshot.queued.back().held_back = "until its checkpoint is written";
    }
    if (const auto kept = kept_kinds_.find(id); kept != kept_kinds_.end()) {
      snapshot.queued.back().kind = kept->second;
    }
  }
  queued_bytes_ = std::move(queued_bytes);
  for (auto it = postponed_.begin(); it != postponed_.end();) {
    it = queued_bytes_.count(it->first) != 0 ? std::next(it) : postponed_.erase(it);
  }
  for (auto it = kept_kinds_.begin(); it != kept_kinds_.end();) {
    it = queued_bytes_.count(it->first) != 0 ? std::next(it) : kept_kinds_.erase(it);
  }
  for (const auto& [id, run] : runs_) {
    RunningJob running{id, run.run.spec().name(), run.run.spec().priority(),
                       {}, run.server_bytes,      run.run.owner()};
    for (const v1::WorkerPlan& worker : run.run.plan().worker()) {
      if (!run.ending.has_value()) running.workers.push_back(worker.name());
    }
    snapshot.running.push_back(std::move(running));
  }
  snapshot.workers = Candidates(v1::WORKER);
  snapshot.servers = Candidates(v1::SERVER);
  snapshot.max_running_of_one = options_.max_running_of_one;
  return snapshot;
}

void ControlPlane::Schedule(Moment now) {
  // What is there shows when they have come back.
  if (members_.num_awaited() > 0) return;
  Decision decision = Decide(Snapshot());
  while (decision.impossible.has_value()) {
    const WaitingJob& impossible = *decision.impossible;
    if (jobs_.Get(impossible.job)->generation() > 0) {
      Postpone(impossible.job, impossible.reason, now);
    } else {
      ChangeState(impossible.job, v1::FAILED, impossible.reason, now);
    }
    decision = Decide(Snapshot());
  }
  for (const WaitingJob& waiting : decision.waiting) {
    jobs_.SetWaitReason(waiting.job, waiting.reason, now.wall);
    changes_.events = true;
  }
  if (!decision.start.has_value()) {
    to_plan_ = nullptr;
    return;
  }
  const StartJob& start = *decision.start;
  if (to_plan_ != nullptr && to_plan_->job == start.job &&
      AreSame(to_plan_->workers, Choose(v1::WORKER, start.workers)) &&
      AreSame(to_plan_->servers, Choose(v1::SERVER, start.servers))) {
    return;
  }
  to_plan_ = ToPlanOf(start);
  to_plan_taken_ = false;
}

void ControlPlane::Postpone(uint64_t job, absl::string_view why, Moment now) {
  postponed_[job] = roster_;
  jobs_.SetWaitReason(
      job, Shortened(absl::StrCat("waiting for other daemons; ", why), kMaxReasonBytes), now.wall);
  changes_.events = true;
}

std::vector<ChosenDaemon> ControlPlane::Choose(v1::DaemonRole role,
                                               const std::vector<std::string>& names) const {
  std::vector<ChosenDaemon> chosen;
  for (const std::string& name : names) {
    const v1::RegisterRequest& known = RegistrationOf(role, name);
    chosen.push_back({name, known.daemon().incarnation(), known.address()});
  }
  return chosen;
}

std::shared_ptr<const ControlPlane::ToPlan> ControlPlane::ToPlanOf(const StartJob& start) const {
  const v1::Job& job = *jobs_.Get(start.job);
  std::vector<const v1::RegisterRequest*> workers;
  for (const std::string& name : start.workers) {
    workers.push_back(&RegistrationOf(v1::WORKER, name));
  }
  return std::make_shared<const ToPlan>(ToPlan{
      start.job, Choose(v1::WORKER, start.workers), Choose(v1::SERVER, start.servers), job.spec(),
      job.layout(),
      ViewOf(workers, options_.link_bytes_per_second, block_times_, job.spec(), job.layout()),
      job.generation() > 0});
}

std::shared_ptr<const ControlPlane::ToPlan> ControlPlane::TakeToPlan() {
  if (to_plan_taken_) return nullptr;
  to_plan_taken_ = to_plan_ != nullptr;
  return to_plan_;
}

}  // namespace sangam
