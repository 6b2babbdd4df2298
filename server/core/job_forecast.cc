#include "server/core/job_forecast.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/forecast.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "server/core/block_times.h"

namespace sangam {
namespace {

v1::ClusterFacts FactsOf(const JobOnWorkers& job, double link_bytes_per_second) {
  v1::ClusterFacts facts;
  for (const v1::RegisterRequest* worker : job.workers) {
    v1::WorkerFacts* added = facts.add_worker();
    added->set_name(worker->daemon().name());
    added->set_memory_bytes(worker->memory_bytes());
    added->set_flops_per_second(worker->flops_per_second());
    added->set_threads(worker->threads());
  }
  facts.set_servers(job.spec.resources().servers());
  facts.set_link_bytes_per_second(link_bytes_per_second);
  return facts;
}

std::vector<v1::BlockTime> TimesFor(const JobOnWorkers& job, const BlockTimes& times) {
  const std::string& backend = job.workers.front()->backend();
  for (const v1::RegisterRequest* worker : job.workers) {
    if (worker->backend() != backend) return {};
  }
  return times.Find(job.spec.model(), job.layout, backend);
}

}  // namespace

v1::PlanReport ForecastOf(const JobOnWorkers& job, double link_bytes_per_second,
                          const BlockTimes& times) {
  return MakeForecasts(job.spec, job.layout, FactsOf(job, link_bytes_per_second),
                       TimesFor(job, times));
}

absl::Status CheckFeasible(const v1::PlanReport& report, const JobOnWorkers& job) {
  if (report.feasible()) return absl::OkStatus();
  v1::ClusterFacts boundless = report.cluster();
  for (v1::WorkerFacts& worker : *boundless.mutable_worker()) worker.clear_memory_bytes();
  const bool for_want_of_memory = MakeForecasts(job.spec, job.layout, boundless, {}).feasible();
  return for_want_of_memory ? absl::FailedPreconditionError(report.explanation())
                            : absl::InvalidArgumentError(report.explanation());
}

}  // namespace sangam
