// Daemons of a control plane that are to do without their jobs, and jobs that go on elsewhere.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "proto/admin_service.pb.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "server/core/checkpoint_policy.h"
#include "server/core/control_plane.h"
#include "server/core/daemon_key.h"
#include "server/core/job_run.h"

namespace sangam {
namespace {

// The daemon that a user means.
absl::StatusOr<DaemonKey> KeyOfAsked(const v1::DrainDaemonRequest& request,
                                     const Membership& members) {
  if (request.name().empty()) return absl::InvalidArgumentError("name: found none");
  std::vector<DaemonKey> known;
  for (const v1::DaemonRole role : {v1::SERVER, v1::WORKER}) {
    if (!request.role().empty() && request.role() != RoleName(role)) continue;
    if (members.daemons().count({role, request.name()}) != 0) {
      known.push_back({role, request.name()});
    }
  }
  if (known.size() == 1) return known.front();
  if (known.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("role: found none, expected server or worker; there is one of each with the "
                     "name \"",
                     request.name(), "\""));
  }
  return absl::NotFoundError(absl::StrCat(request.role().empty() ? "daemon" : request.role(), " \"",
                                          request.name(), "\": there is none; see sangam cluster"));
}

}  // namespace

absl::Status ControlPlane::Drain(const v1::DaemonIdentity& daemon, Moment now) {
  RETURN_IF_ERROR(members_.Check(daemon));
  if (members_.SetDraining(daemon)) OnDraining(KeyOf(daemon), "daemon drains", now);
  return absl::OkStatus();
}

absl::StatusOr<v1::DrainDaemonResponse> ControlPlane::DrainDaemon(
    const v1::DrainDaemonRequest& request, Moment now) {
  Advance(now);
  ASSIGN_OR_RETURN(const DaemonKey key, KeyOfAsked(request, members_));
  ASSIGN_OR_RETURN(const bool news, members_.SetCordoned(key, !request.undrain()));
  if (news) {
    changed_daemons_.insert(key);
    OnDraining(key, request.undrain() ? "daemon is to work again" : "daemon is to drain", now);
  }
  v1::DrainDaemonResponse response;
  response.set_role(RoleName(key.role));
  if (const AssignmentBoard::Entry* entry = board_.Get(key); entry != nullptr) {
    for (const auto& [job, assignment] : entry->assignments) {
      if (assignment->phase() != v1::Assignment::HOLD) response.add_job(job);
    }
  }
  return response;
}

void ControlPlane::OnDraining(const DaemonKey& key, absl::string_view what, Moment now) {
  Note(false, std::string(what), {{"role", RoleName(key.role)}, {"name", key.name}});
  ++roster_;
  // Whoever waits for it may be told at once.
  changes_.assignments = true;
  AdvanceDrains(now);
  Schedule(now);
}

bool ControlPlane::IsDrained(const v1::DaemonIdentity& daemon) const {
  if (!members_.Check(daemon).ok()) return false;
  if (members_.daemons().at(KeyOf(daemon)).draining.empty()) return false;
  for (const auto& [job, run] : runs_) {
    const bool let_go = run.needs_no_workers() && daemon.role() == v1::WORKER;
    if (!let_go && run.run.Find(daemon).has_value()) return false;
  }
  return true;
}

std::string ControlPlane::DrainersOf(const v1::Plan& plan) const {
  std::vector<std::string> names;
  const auto add = [this, &names](v1::DaemonRole role, const auto& members) {
    for (const auto& member : members) {
      const auto found = members_.daemons().find({role, member.name()});
      if (found == members_.daemons().end() || found->second.draining.empty()) continue;
      names.push_back(ToString(found->first));
    }
  };
  add(v1::WORKER, plan.worker());
  add(v1::SERVER, plan.server());
  if (names.empty()) return "";
  return absl::StrCat(absl::StrJoin(names, ", "), names.size() == 1 ? " drains" : " drain");
}

void ControlPlane::KeepGivenBack(const Run& run) {
  if (!run.stopping.has_value() || !run.stopping->written.has_value()) return;
  const v1::ServerPlan& first = run.run.plan().server(0);
  GivenBack& kept = given_back_[run.run.job()];
  kept.generation = run.run.plan().generation();
  kept.counter.set_role(v1::SERVER);
  kept.counter.set_name(first.name());
  kept.counter.set_incarnation(first.incarnation());
  kept.step = *run.stopping->written;
  kept.skipped = run.run.skipped();
}

void ControlPlane::AdvanceDrains(Moment now) {
  for (const uint64_t job : RunningJobs()) {
    if (runs_.count(job) != 0) AdvanceDrain(job, now);
  }
}

void ControlPlane::AdvanceDrain(uint64_t job, Moment now) {
  Run& run = runs_.at(job);
  // One that awaits its last checkpoint soon needs nobody.
  if (run.ending.has_value()) return;
  std::string why = DrainersOf(run.run.plan());
  if (run.needs_no_workers()) {
    why = run.stopping->why;
  } else if (why.empty()) {
    if (!run.stopping.has_value()) return;
    run.stopping.reset();
    run.checkpoints->SetStopping(false, now.steady);
    WantSnapshots(&run);
    jobs_.AddMessage(job, "nobody drains any more: the job goes on where it is", now.wall);
    changes_.events = true;
    return;
  }
  const auto give_back = [&](std::string reason) {
    JobRun::Outcome outcome{v1::PREEMPTED, std::move(reason)};
    outcome.drained = true;
    EndRun(job, outcome, now);
    Schedule(now);
  };
  if (!run.run.running()) {
    give_back(why);
    return;
  }
  if (!keeps_checkpoints_) {
    give_back(
        absl::StrCat(why, "; nothing can be written down, so what it has done is done again"));
    return;
  }
  if (!run.stopping.has_value()) {
    run.stopping = Stopping{why};
    jobs_.AddMessage(job, absl::StrCat(why, ": the job stops after a step and goes on elsewhere"),
                     now.wall);
    changes_.events = true;
  }
  run.stopping->why = why;
  run.checkpoints->SetStopping(true, now.steady);
  WantSnapshots(&run);
  if (run.stopping->failed) {
    give_back(absl::StrCat(
        why,
        "; the step could not be written down, so what was done since the last one is done again"));
    return;
  }
  // The last losses may come after the copies.
  const std::optional<uint64_t> stop = run.checkpoints->stop_step();
  if (!stop.has_value() || run.run.steps_done() < *stop) return;
  if (!run.stopping->let_go && run.checkpoints->holds_stop()) {
    run.stopping->let_go = true;
    // Workers that drain may go, however long it takes to write.
    changes_.assignments = true;
    if (std::exchange(run.served, nullptr) != nullptr) changes_.served = true;
  }
  if (run.stopping->written != stop) return;
  give_back(absl::StrCat(why, "; stopped before step ", *stop));
}

}  // namespace sangam
