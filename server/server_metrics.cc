#include "server/server_metrics.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/metrics/counters.h"
#include "common/metrics/metric_page.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

namespace sangam {
namespace {

using nlohmann::json;

double Count(const std::atomic<uint64_t>& counter) {
  return static_cast<double>(Counters::Get(counter));
}

double Seconds(const std::atomic<uint64_t>& microseconds) { return Count(microseconds) / 1e6; }

std::string Lower(const std::string& name) { return absl::AsciiStrToLower(name); }

bool HasEnded(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED || state == v1::CANCELLED;
}

const char* StateOf(const v1::DaemonStatus& daemon) {
  if (!daemon.alive()) return "lost";
  if (!daemon.fault().empty()) return "faulty";
  return daemon.job().empty() ? "idle" : "busy";
}

void AddDaemons(const v1::Cluster& cluster, MetricPage* page) {
  for (const char* role : {"worker", "server"}) {
    std::map<std::string, double> states = {{"idle", 0}, {"busy", 0}, {"faulty", 0}, {"lost", 0}};
    for (const v1::DaemonStatus& daemon : cluster.daemon()) {
      if (daemon.role() == role) ++states[StateOf(daemon)];
    }
    for (const auto& [state, count] : states) {
      page->Gauge(absl::StrCat("sangam_", role, "s"),
                  absl::StrCat("Registered ", role, "s, by what becomes of them"), count,
                  {{"state", state}});
    }
  }
  for (const v1::DaemonStatus& daemon : cluster.daemon()) {
    if (daemon.role() == "worker") {
      page->Gauge("sangam_worker_heartbeat_age_seconds", "Since a worker's last sign of life",
                  static_cast<double>(daemon.silent_ms()) / 1e3, {{"worker", daemon.name()}});
    }
  }
}

void AddJobStates(const std::vector<v1::Job>& jobs, MetricPage* page) {
  std::map<std::string, double> states;
  for (const v1::JobState state : {v1::QUEUED, v1::STARTING, v1::RUNNING, v1::SUCCEEDED, v1::FAILED,
                                   v1::CANCELLED, v1::PREEMPTED}) {
    states[Lower(v1::JobState_Name(state))] = 0;
  }
  for (const v1::Job& job : jobs) ++states[Lower(v1::JobState_Name(job.state()))];
  for (const auto& [state, count] : states) {
    page->Gauge("sangam_jobs", "Jobs that are remembered, by state", count, {{"state", state}});
  }
}

void AddJob(const v1::Job& job, bool stalled, MetricPage* page) {
  const MetricPage::Labels labels = {{"job", absl::StrCat(job.id())}};
  const v1::Progress& progress = job.progress();
  page->Gauge("sangam_job_info", "1, for a job's name and state", 1,
              {{"job", absl::StrCat(job.id())},
               {"name", job.spec().name()},
               {"state", Lower(v1::JobState_Name(job.state()))}});
  page->Gauge("sangam_train_step", "Steps that are complete",
              static_cast<double>(progress.steps_done()), labels);
  page->Gauge("sangam_train_steps_planned", "Steps of the whole job; 0 while that is unknown",
              static_cast<double>(progress.steps_total()), labels);
  page->Counter("sangam_train_samples_total", "Samples trained",
                static_cast<double>(progress.samples()), labels);
  page->Gauge("sangam_train_samples_per_second", "Speed since the job runs",
              progress.samples_per_second(), labels);
  page->Counter("sangam_train_skipped_steps_total", "Steps whose gradient was not finite",
                static_cast<double>(job.skipped_steps()), labels);
  page->Gauge("sangam_job_generation", "How often the job has been planned",
              static_cast<double>(job.generation()), labels);
  page->Gauge("sangam_job_stalled", "1: runs, but no step has been completed for 10 minutes",
              stalled ? 1 : 0, labels);
  if (progress.steps_done() > 0) {
    page->Gauge("sangam_train_loss", "Mean loss of the last complete step", progress.loss(),
                labels);
  }
  if (job.has_utilization()) {
    page->Gauge("sangam_pipeline_bubble_ratio",
                "Part of the newest traced step in which the workers did not compute",
                job.utilization().bubble(), labels);
  }
  if (!job.checkpoint().empty()) {
    page->Gauge("sangam_job_checkpoint_step", "Step of the job's newest checkpoint",
                static_cast<double>(job.checkpoint().rbegin()->step()), labels);
  }
}

bool IsStalled(const ServerSnapshot::Coordinating& coordinating, uint64_t job) {
  const auto& stalls = coordinating.stalls;
  return std::any_of(stalls.begin(), stalls.end(),
                     [job](const StallWatch::Stall& stall) { return stall.job == job; });
}

void AddCheckpoints(const Counters& counters, MetricPage* page) {
  page->Counter("sangam_checkpoints_total", "Checkpoints that are complete",
                Count(counters.checkpoints));
  page->Counter("sangam_checkpoint_seconds_total", "Time that writing them took",
                Seconds(counters.checkpoint_us));
  page->Gauge("sangam_checkpoint_duration_seconds", "The same of the newest one",
              Seconds(counters.checkpoint_last_us));
  page->Gauge("sangam_checkpoint_bytes", "Size of the newest one",
              Count(counters.checkpoint_bytes));
  page->Gauge("sangam_checkpoint_last_success_timestamp_seconds",
              "When the newest one was complete, since 1970; 0: none yet",
              Seconds(counters.checkpoint_success_unix_us));
  for (size_t code = 1; code < counters.checkpoint_failures.size(); ++code) {
    const double failures = Count(counters.checkpoint_failures[code]);
    if (failures == 0 && static_cast<absl::StatusCode>(code) != absl::StatusCode::kUnavailable) {
      continue;
    }
    page->Counter(
        "sangam_checkpoint_failures_total", "Checkpoints that could not be written", failures,
        {{"reason", Lower(absl::StatusCodeToString(static_cast<absl::StatusCode>(code)))}});
  }
  page->Counter("sangam_disk_stalls_total", "Waits for the disk of more than 30 seconds",
                Count(counters.disk_stalls));
}

void AddTraffic(const Counters& counters, MetricPage* page) {
  page->Counter("sangam_push_bytes_total", "Gradients that came in", Count(counters.push_bytes));
  page->Counter("sangam_pull_bytes_total", "Weights that went out", Count(counters.pull_bytes));
  MetricPage::Histogram waits;
  for (size_t i = 0; i < Counters::kWaitBounds.size(); ++i) {
    waits.count += Counters::Get(counters.aggregation_waits[i]);
    waits.buckets.emplace_back(Counters::kWaitBounds[i], waits.count);
  }
  waits.count += Counters::Get(counters.aggregation_waits.back());
  waits.sum = Seconds(counters.aggregation_wait_us);
  page->AddHistogram("sangam_aggregation_wait_seconds",
                     "From the first gradient of a page's step to the last one", waits);
  page->Counter("sangam_aggregation_rounds_total", "Sums of a page's step that became complete",
                static_cast<double>(waits.count));
  page->Counter("sangam_skipped_steps_total",
                "Steps whose gradient was not finite, seen by the server that counts votes",
                Count(counters.skipped_steps));
  page->Counter("sangam_fenced_requests_total", "Streams that ended for an older generation",
                Count(counters.fenced_frames));
}

void AddPages(const ServerSnapshot::Holding& holding, MetricPage* page) {
  for (const ShardTable::JobFacts& job : holding.jobs) {
    const MetricPage::Labels labels = {{"job", absl::StrCat(job.job)}};
    page->Gauge("sangam_pages", "Pages of a job on this server", static_cast<double>(job.pages),
                labels);
    page->Gauge("sangam_params_bytes", "Weights and optimizer state of a job on this server",
                static_cast<double>(job.memory_bytes), labels);
  }
  page->Counter("sangam_dedup_hits_total", "Gradients that changed nothing",
                static_cast<double>(holding.ignored_covered), {{"kind", "covered"}});
  page->Counter("sangam_dedup_hits_total", "Gradients that changed nothing",
                static_cast<double>(holding.ignored_finished), {{"kind", "finished"}});
  page->Gauge("sangam_memory_used_bytes", "Memory by what it is for",
              static_cast<double>(holding.memory_bytes), {{"kind", "parameters"}});
  page->Gauge("sangam_memory_used_bytes", "Memory by what it is for",
              static_cast<double>(holding.budget_used_bytes), {{"kind", "staging"}});
  page->Gauge("sangam_memory_used_bytes", "Memory by what it is for",
              static_cast<double>(holding.planned_bytes), {{"kind", "planned"}});
  page->Gauge("sangam_memory_budget_bytes", "What staging may have on top of what is planned",
              static_cast<double>(holding.budget_bytes));
  if (holding.memory_limit > 0) {
    page->Gauge("sangam_memory_limit_bytes", "What --memory_limit gives to parameters",
                static_cast<double>(holding.memory_limit));
  }
}

json JobStatus(const v1::Job& job, bool stalled) {
  json status = {{"id", job.id()},
                 {"name", job.spec().name()},
                 {"state", Lower(v1::JobState_Name(job.state()))},
                 {"reason", job.reason()},
                 {"generation", job.generation()},
                 {"step", job.progress().steps_done()},
                 {"steps_total", job.progress().steps_total()},
                 {"samples_per_second", job.progress().samples_per_second()},
                 {"workers", json::array()},
                 {"servers", json::array()},
                 {"stalled", stalled}};
  if (job.progress().steps_done() > 0) status["loss"] = job.progress().loss();
  for (const std::string& worker : job.worker()) status["workers"].push_back(worker);
  for (const std::string& server : job.server()) status["servers"].push_back(server);
  return status;
}

}  // namespace

void AddServerMetrics(const ServerSnapshot& snapshot, const Counters& counters, MetricPage* page) {
  if (snapshot.coordinating.has_value()) {
    const ServerSnapshot::Coordinating& coordinating = *snapshot.coordinating;
    AddDaemons(coordinating.cluster, page);
    AddJobStates(coordinating.jobs, page);
    int shown = 0;
    for (const v1::Job& job : coordinating.jobs) {
      if (HasEnded(job.state()) || ++shown > kMaxJobSeries) continue;
      AddJob(job, IsStalled(coordinating, job.id()), page);
    }
    if (coordinating.keeps_checkpoints) AddCheckpoints(counters, page);
  }
  if (snapshot.holding.has_value()) {
    AddTraffic(counters, page);
    AddPages(*snapshot.holding, page);
  }
}

void AddServerStatus(const ServerSnapshot& snapshot, const Counters& counters, json* status) {
  if (snapshot.coordinating.has_value()) {
    json& jobs = (*status)["jobs"] = json::array();
    int shown = 0;
    for (const v1::Job& job : snapshot.coordinating->jobs) {
      if (++shown > kMaxJobSeries) break;
      jobs.push_back(JobStatus(job, IsStalled(*snapshot.coordinating, job.id())));
    }
    json& peers = (*status)["peers"] = json::array();
    for (const v1::DaemonStatus& daemon : snapshot.coordinating->cluster.daemon()) {
      peers.push_back({{"role", daemon.role()},
                       {"name", daemon.name()},
                       {"address", daemon.address()},
                       {"state", StateOf(daemon)},
                       {"silent_seconds", static_cast<double>(daemon.silent_ms()) / 1e3},
                       {"fault", daemon.fault()}});
    }
  }
  if (snapshot.holding.has_value()) {
    json& pages = (*status)["pages"] = json::array();
    for (const ShardTable::JobFacts& job : snapshot.holding->jobs) {
      pages.push_back({{"job", job.job},
                       {"generation", job.generation},
                       {"pages", job.pages},
                       {"bytes", job.memory_bytes},
                       {"held", job.held}});
    }
    (*status)["memory"] = {{"parameters_bytes", snapshot.holding->memory_bytes},
                           {"limit_bytes", snapshot.holding->memory_limit}};
    (*status)["traffic"] = {{"push_bytes", Counters::Get(counters.push_bytes)},
                            {"pull_bytes", Counters::Get(counters.pull_bytes)}};
  }
}

}  // namespace sangam
