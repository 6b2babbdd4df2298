#include "server/core/trace_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/plan/pipeline_layout.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

// In a report.
constexpr int kMaxEvents = 1 << 17;

// A report within WorkerTrace: its bytes, tag and length.
size_t BytesOf(const v1::TraceReport& report) { return report.ByteSizeLong() + 8; }

bool IsCompute(v1::Activity activity) {
  return activity == v1::FORWARD || activity == v1::BACKWARD || activity == v1::WEIGHT_GRADIENT ||
         activity == v1::LOSS;
}

}  // namespace

void TraceStore::Begin(absl::string_view name, const v1::Plan& plan) {
  Job job;
  job.head.set_job(plan.job());
  job.head.set_name(std::string(name));
  for (int w = 0; w < plan.worker_size(); ++w) {
    v1::WorkerTrace* worker = job.head.add_worker();
    worker->set_worker(plan.worker(w).name());
    worker->set_rank(plan.worker(w).rank());
    const auto index = static_cast<uint32_t>(w);
    if (!BlocksOf(plan, index).empty()) job.computing.insert(index);
  }
  job.lanes = std::max(1u, plan.lanes());
  for (const v1::BlockLayout& block : plan.layout().block()) job.head.add_block(block.name());
  job.bytes = job.head.ByteSizeLong();
  jobs_[plan.job()] = std::move(job);
  while (jobs_.size() > options_.max_jobs) jobs_.erase(jobs_.begin());
}

absl::Status TraceStore::Check(const v1::TraceReport& report, const v1::Plan& plan,
                               uint64_t steps_total) {
  const auto fault = [&report](const auto&... message) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace of step ", report.step(), ": ", message...));
  };
  if (report.step() >= steps_total) return fault("expected a step below ", steps_total);
  if (report.event_size() > kMaxEvents) {
    return fault("found ", report.event_size(), " events, expected at most ", kMaxEvents);
  }
  const auto blocks = static_cast<uint32_t>(plan.layout().block_size());
  // Each lane has a share at least.
  const uint32_t lanes = std::max(1u, plan.shares());
  for (const v1::TraceEvent& event : report.event()) {
    if (event.block() >= blocks || event.activity() == v1::ACTIVITY_UNSPECIFIED ||
        !v1::Activity_IsValid(event.activity())) {
      return fault("found activity ", event.activity(), " of block ", event.block(),
                   ", expected a known one of a block below ", blocks);
    }
    if (event.lane() >= lanes) {
      return fault("found lane ", event.lane(), ", expected one below ", lanes);
    }
  }
  return absl::OkStatus();
}

std::optional<v1::Utilization> TraceStore::Add(uint64_t job, uint32_t worker,
                                               const v1::TraceReport& report) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return std::nullopt;
  Job& traced = found->second;
  // A step that is older than all that are kept has been dropped.
  if (traced.steps.size() >= options_.max_steps && report.step() < traced.steps.begin()->first) {
    return std::nullopt;
  }
  Step& step = traced.steps[report.step()];
  if (!step.reported.insert(worker).second) return std::nullopt;
  const bool computes = traced.computing.count(worker) > 0;
  if (computes) step.work.emplace(worker, WorkOf(report));
  const bool whole = computes && step.work.size() == traced.computing.size() &&
                     (!traced.newest_whole.has_value() || report.step() > *traced.newest_whole);
  std::optional<v1::Utilization> utilization;
  if (whole) {
    traced.newest_whole = report.step();
    utilization = Summarize(report.step(), step.work, traced.lanes);
  }
  Keep(worker, report, &traced, &step);
  return utilization;
}

absl::StatusOr<v1::JobTrace> TraceStore::Get(uint64_t job) const {
  const auto found = jobs_.find(job);
  bool any = false;
  v1::JobTrace trace;
  if (found != jobs_.end()) {
    trace = found->second.head;
    for (const auto& [number, step] : found->second.steps) {
      for (const auto& [worker, report] : step.reports) {
        *trace.mutable_worker(static_cast<int>(worker))->add_step() = report;
        any = true;
      }
    }
  }
  if (any) return trace;
  return absl::NotFoundError(absl::StrCat(
      "job ", job,
      ": nothing of it was traced, or its trace is no longer kept (those of the newest ",
      options_.max_jobs, " jobs are)"));
}

TraceStore::Work TraceStore::WorkOf(const v1::TraceReport& report) {
  Work work;
  for (const v1::TraceEvent& event : report.event()) {
    if (!IsCompute(event.activity())) continue;
    const auto begin = static_cast<double>(event.begin_us());
    const double end = begin + static_cast<double>(event.duration_us());
    work.begin = work.lanes == 0 ? begin : std::min(work.begin, begin);
    work.end = work.lanes == 0 ? end : std::max(work.end, end);
    work.busy += end - begin;
    work.lanes = std::max(work.lanes, event.lane() + 1);
  }
  return work;
}

v1::Utilization TraceStore::Summarize(uint64_t step, const std::map<uint32_t, Work>& work,
                                      uint32_t lanes) {
  double begin = std::numeric_limits<double>::infinity();
  double end = 0;
  for (const auto& [worker, its] : work) {
    if (its.lanes == 0) continue;
    begin = std::min(begin, its.begin);
    end = std::max(end, its.end);
  }
  v1::Utilization utilization;
  utilization.set_step(step);
  const double span = std::max(end - begin, 0.0);
  utilization.set_span_seconds(span * 1e-6);
  if (span <= 0) return utilization;
  double busy = 0;
  for (const auto& [worker, its] : work) {
    // Clocks of different machines differ, so a peer's numbers may not add up.
    busy += std::min(its.busy / (span * std::max(lanes, its.lanes)), 1.0);
  }
  utilization.set_bubble(std::clamp(1 - busy / static_cast<double>(work.size()), 0.0, 1.0));
  return utilization;
}

void TraceStore::Keep(uint32_t worker, const v1::TraceReport& report, Job* job, Step* step) const {
  const size_t bytes = BytesOf(report);
  const size_t of_this_step = job->head.ByteSizeLong() + step->bytes + bytes;
  // The older steps go for the newest one, but a part of it may still be too much.
  if (of_this_step <= options_.max_bytes) {
    step->reports[worker] = report;
    step->bytes += bytes;
    job->bytes += bytes;
  }
  while (job->steps.size() > options_.max_steps ||
         (job->bytes > options_.max_bytes && !job->steps.empty())) {
    DropOldest(job);
  }
}

void TraceStore::DropOldest(Job* job) {
  job->bytes -= job->steps.begin()->second.bytes;
  job->steps.erase(job->steps.begin());
}

}  // namespace sangam
