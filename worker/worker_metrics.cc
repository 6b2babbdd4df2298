#include "worker/worker_metrics.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/metrics/counters.h"
#include "common/metrics/metric_page.h"
#include "common/metrics/process_metrics.h"
#include "nlohmann/json.hpp"
#include "worker/report_counts.h"

namespace sangam {
namespace {

bool IsWait(StepPhase phase) {
  return phase == StepPhase::kWait || phase == StepPhase::kPull || phase == StepPhase::kData;
}

}  // namespace

void WorkerMetrics::AddMetrics(MetricPage* page) const {
  double all = 0;
  double waits = 0;
  for (size_t i = 0; i < kStepPhaseNames.size(); ++i) {
    const double seconds = static_cast<double>(Counters::Get(counters_.step_phase_us[i])) / 1e6;
    page->Counter("sangam_step_phase_seconds_total",
                  "Time of all lanes in training; on a GPU of every 64th step", seconds,
                  {{"phase", kStepPhaseNames[i]}});
    all += seconds;
    if (IsWait(static_cast<StepPhase>(i))) waits += seconds;
  }
  page->Gauge("sangam_worker_queue_wait_ratio",
              "Part of that time in which lanes waited for data, weights or neighbours",
              all > 0 ? waits / all : 0);
  for (const ReportCounts::Job& job : reports_.Jobs()) {
    page->Gauge("sangam_worker_step", "Steps that this worker has reported of a job",
                static_cast<double>(job.steps), {{"job", absl::StrCat(job.job)}});
  }
  page->Counter("sangam_worker_steps_total", "Steps that this worker has reported, of all jobs",
                static_cast<double>(reports_.steps()));
  page->Counter("sangam_worker_jobs_total", "Jobs that ended on this worker",
                static_cast<double>(reports_.finished()), {{"result", "finished"}});
  page->Counter("sangam_worker_jobs_total", "Jobs that ended on this worker",
                static_cast<double>(reports_.failed()), {{"result", "failed"}});
  AddRefusals(refusals_, page);
  page->Gauge("sangam_worker_flops", "Measured at the start: operations a second",
              facts_.flops_per_second);
  if (!facts_.device.name().empty()) {
    page->Gauge("sangam_gpu_memory_bytes", "Memory of the device",
                static_cast<double>(facts_.device.memory_bytes()),
                {{"device", facts_.device.name()}});
  }
}

void WorkerMetrics::AddStatus(nlohmann::json* status) const {
  (*status)["backend"] = facts_.backend;
  (*status)["address"] = facts_.address;
  (*status)["threads"] = facts_.threads;
  (*status)["flops_per_second"] = facts_.flops_per_second;
  if (!facts_.device.name().empty()) {
    (*status)["device"] = {{"name", facts_.device.name()},
                           {"memory_bytes", facts_.device.memory_bytes()}};
  }
  nlohmann::json& jobs = (*status)["jobs"] = nlohmann::json::array();
  for (const ReportCounts::Job& job : reports_.Jobs()) {
    jobs.push_back({{"id", job.job}, {"generation", job.generation}, {"step", job.steps}});
  }
}

}  // namespace sangam
