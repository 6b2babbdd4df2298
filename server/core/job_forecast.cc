#include "server/core/job_forecast.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/plan/forecast.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "server/core/block_times.h"
#include "server/core/registration.h"

namespace sangam {
namespace {

// As many as no planned lane lacks: their number limits how many micro-batches one has.
constexpr uint32_t kManyThreads = 4096;

}  // namespace

ClusterView ViewOf(const std::vector<const v1::RegisterRequest*>& workers,
                   double link_bytes_per_second, const BlockTimes& times, const v1::JobSpec& spec,
                   const v1::ModelLayout& layout) {
  ClusterView view;
  bool same_unit = !workers.empty();
  for (const v1::RegisterRequest* worker : workers) {
    v1::WorkerFacts* facts = view.facts.add_worker();
    facts->set_name(worker->daemon().name());
    facts->set_memory_bytes(worker->memory_bytes());
    facts->set_flops_per_second(worker->flops_per_second());
    facts->set_threads(worker->threads());
    same_unit = same_unit && UnitOf(*worker) == UnitOf(*workers.front());
  }
  view.facts.set_servers(spec.resources().servers());
  view.facts.set_link_bytes_per_second(link_bytes_per_second);
  if (same_unit) view.measured = times.Find(spec.model(), layout, UnitOf(*workers.front()));
  return view;
}

absl::StatusOr<v1::PlanReport> PlanJob(const v1::JobSpec& spec, const v1::ModelLayout& layout,
                                       const ClusterView& view) {
  const auto found = static_cast<uint32_t>(view.facts.worker_size());
  const uint32_t wanted = spec.resources().workers();
  if (found == 0) {
    return absl::FailedPreconditionError("no worker is registered, so there is none to plan for");
  }
  v1::PlanReport report = MakeForecasts(spec, layout, view.facts, view.measured);
  if (found < wanted) {
    report.set_explanation(absl::StrCat(report.explanation(), "; this is for the ", found, " of ",
                                        wanted,
                                        " workers (resources.workers) that are registered"));
  }
  return report;
}

absl::Status CheckFits(const v1::JobSpec& spec, const v1::ModelLayout& layout,
                       const ClusterView& view) {
  if (static_cast<uint32_t>(view.facts.worker_size()) < spec.resources().workers()) {
    return absl::OkStatus();
  }
  const v1::PlanReport report = MakeForecasts(spec, layout, view.facts, view.measured);
  if (report.feasible()) return absl::OkStatus();
  v1::ClusterFacts boundless = view.facts;
  for (v1::WorkerFacts& worker : *boundless.mutable_worker()) {
    worker.clear_memory_bytes();
    worker.set_threads(kManyThreads);
  }
  return CanRun(spec, layout, boundless) ? absl::FailedPreconditionError(report.explanation())
                                         : absl::InvalidArgumentError(report.explanation());
}

}  // namespace sangam
