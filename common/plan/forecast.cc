#include "common/plan/forecast.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/plan/cost_model.h"
#include "common/plan/forecast_text.h"
#include "common/plan/strategy_forecast.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

// Stages on each worker when PipelineSpec.interleave is not given.
constexpr uint32_t kDefaultInterleave = 2;

uint32_t ChunksFor(const v1::PipelineSpec& pipeline) {
  if (pipeline.schedule() != v1::INTERLEAVED) return 1;
  return pipeline.interleave() == 0 ? kDefaultInterleave : pipeline.interleave();
}

uint32_t WorkersOf(const ForecastJob& job) {
  return static_cast<uint32_t>(job.cluster.worker_size());
}

uint32_t BlocksOf(const ForecastJob& job) { return static_cast<uint32_t>(job.layout.block_size()); }

// The number of ranks that the user fixed, by number or by cuts; nothing when it is free.
// Errors: InvalidArgument  cuts that do not fit the number
absl::StatusOr<std::optional<uint32_t>> FixedRanks(const v1::PipelineSpec& pipeline) {
  const uint32_t chunks = ChunksFor(pipeline);
  const auto cuts = static_cast<uint32_t>(pipeline.cut_size());
  if (cuts == 0 && pipeline.workers() == 0) return std::optional<uint32_t>();
  if (cuts == 0) return std::optional<uint32_t>(pipeline.workers());
  const bool fits = pipeline.workers() == 0 ? (cuts + 1) % chunks == 0
                                            : cuts + 1 == uint64_t{pipeline.workers()} * chunks;
  if (fits) return std::optional<uint32_t>((cuts + 1) / chunks);
  return absl::InvalidArgumentError(absl::StrCat(
      "pipeline.cut: found ", cuts, " cuts, which make ", cuts + 1, " stages, expected ",
      pipeline.workers() == 0 ? absl::StrCat("a multiple of ", chunks)
                              : absl::StrCat(uint64_t{pipeline.workers()} * chunks, " stages for ",
                                             pipeline.workers(), " workers"),
      " with ", chunks, " on each"));
}

// Whether pipelines of `ranks` workers can be laid out at all, `pipelines` of them.
absl::Status CheckRanks(const ForecastJob& job, uint64_t ranks, uint64_t pipelines) {
  const uint64_t stages = ranks * ChunksFor(job.spec.pipeline());
  if (ranks < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("found ", ranks, " workers for a pipeline, expected at least 2"));
  }
  if (ranks * pipelines > WorkersOf(job)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found ", WorkersOf(job), " workers, expected at least ", ranks * pipelines, ": ",
        pipelines, pipelines == 1 ? " pipeline" : " pipelines", " of ", ranks, " workers"));
  }
  if (stages > BlocksOf(job)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found ", BlocksOf(job), BlocksOf(job) == 1 ? " block" : " blocks", ", expected at least ",
        stages, " for ", ranks, " workers with ", ChunksFor(job.spec.pipeline()),
        ChunksFor(job.spec.pipeline()) == 1 ? " stage" : " stages", " on each"));
  }
  return absl::OkStatus();
}

// What of the cluster a strategy would use when it cannot be laid out.
v1::StrategyForecast CannotRun(const ForecastJob& job, Spread spread, const absl::Status& why) {
  v1::StrategyForecast forecast;
  const v1::Schedule schedule = job.spec.pipeline().schedule();
  forecast.set_strategy(spread.strategy);
  forecast.set_ranks(spread.ranks);
  forecast.set_replicas(spread.replicas);
  forecast.set_chunks(spread.chunks);
  forecast.set_schedule(schedule == v1::SCHEDULE_UNSPECIFIED ? v1::ONE_F_ONE_B : schedule);
  forecast.set_obstacle(std::string(why.message()));
  Describe(job.spec.batch().shares(), &forecast);
  return forecast;
}

v1::StrategyForecast DataParallel(const ForecastJob& job) {
  const uint32_t replicas = std::min(WorkersOf(job), job.spec.batch().shares());
  return ForecastStrategy(job, {v1::DATA_PARALLEL, 1, replicas, 1});
}

v1::StrategyForecast ModelParallel(const ForecastJob& job) {
  Spread spread{v1::MODEL_PARALLEL, 2, 1, ChunksFor(job.spec.pipeline())};
  const absl::StatusOr<std::optional<uint32_t>> fixed = FixedRanks(job.spec.pipeline());
  if (!fixed.ok()) return CannotRun(job, spread, fixed.status());
  const uint32_t room = std::min(WorkersOf(job), BlocksOf(job) / spread.chunks);
  // With less room than a pipeline needs, the check says what is missing.
  spread.ranks = fixed->value_or(std::max<uint32_t>(2, room));
  const absl::Status possible = CheckRanks(job, spread.ranks, 1);
  return possible.ok() ? ForecastStrategy(job, spread) : CannotRun(job, spread, possible);
}

// Numbers of ranks worth a look: for each number of pipelines the most that there is room for.
std::set<uint32_t> HybridRanks(const ForecastJob& job, uint32_t chunks) {
  std::set<uint32_t> ranks;
  for (uint32_t replicas = 2; replicas <= job.spec.batch().shares(); ++replicas) {
    const uint32_t room = std::min(WorkersOf(job) / replicas, BlocksOf(job) / chunks);
    if (room < 2) break;
    ranks.insert(room);
  }
  return ranks.empty() ? std::set<uint32_t>{2} : ranks;
}

// Whether `a` is the better one of two forecasts of one strategy.
bool Better(const v1::StrategyForecast& a, const v1::StrategyForecast& b) {
  if (a.fits() != b.fits()) return a.fits();
  if (a.fits()) return a.step_seconds() < b.step_seconds();
  return a.memory_bytes() < b.memory_bytes();
}

v1::StrategyForecast Hybrid(const ForecastJob& job) {
  Spread spread{v1::HYBRID, 2, 2, ChunksFor(job.spec.pipeline())};
  const absl::StatusOr<std::optional<uint32_t>> fixed = FixedRanks(job.spec.pipeline());
  if (!fixed.ok()) return CannotRun(job, spread, fixed.status());
  // Who asks for it gets it, with idle workers, as with DATA_PARALLEL and more workers than shares.
  if (job.spec.batch().shares() < 2 && job.spec.strategy() != v1::HYBRID) {
    return CannotRun(
        job, spread,
        absl::InvalidArgumentError(absl::StrCat("batch.shares: found ", job.spec.batch().shares(),
                                                ", expected at least 2: one for each pipeline")));
  }
  const std::set<uint32_t> candidates =
      fixed->has_value() ? std::set<uint32_t>{**fixed} : HybridRanks(job, spread.chunks);
  std::optional<v1::StrategyForecast> best;
  for (const uint32_t ranks : candidates) {
    spread.ranks = ranks;
    if (const absl::Status possible = CheckRanks(job, ranks, 2); !possible.ok()) {
      return CannotRun(job, spread, possible);
    }
    spread.replicas = std::min(WorkersOf(job) / ranks, job.spec.batch().shares());
    v1::StrategyForecast forecast = ForecastStrategy(job, spread);
    if (!best.has_value() || Better(forecast, *best)) best = std::move(forecast);
  }
  return *best;
}

// "DATA_PARALLEL 12.30 ms a step" or "HYBRID cannot run: ...".
std::string Verdict(const v1::StrategyForecast& forecast) {
  const std::string name = v1::Strategy_Name(forecast.strategy());
  return forecast.fits()
             ? absl::StrCat(name, " would take ", SecondsText(forecast.step_seconds()), " a step")
             : absl::StrCat(name, " cannot run: ", forecast.obstacle());
}

void Choose(v1::Strategy asked, v1::PlanReport* report) {
  std::optional<int> chosen;
  for (int f = 0; f < report->forecast_size(); ++f) {
    const v1::StrategyForecast& forecast = report->forecast(f);
    if (!forecast.fits() || (asked != v1::AUTO && forecast.strategy() != asked)) continue;
    if (!chosen || forecast.step_seconds() < report->forecast(*chosen).step_seconds()) chosen = f;
  }
  std::vector<std::string> verdicts;
  for (int f = 0; f < report->forecast_size(); ++f) {
    if (f == chosen.value_or(-1)) continue;
    if (!chosen && asked != v1::AUTO && report->forecast(f).strategy() != asked) continue;
    verdicts.push_back(Verdict(report->forecast(f)));
  }
  report->set_feasible(chosen.has_value());
  if (!chosen) {
    report->set_explanation(absl::StrJoin(verdicts, "; "));
    return;
  }
  report->set_chosen(static_cast<uint32_t>(*chosen));
  const v1::StrategyForecast& best = report->forecast(*chosen);
  report->set_explanation(absl::StrCat(
      v1::Strategy_Name(best.strategy()),
      asked == v1::AUTO ? " is the fastest that fits" : " as the job says", ": ",
      SecondsText(best.step_seconds()), " a step and ", BytesText(best.memory_bytes()),
      best.memory_limit_bytes() == 0
          ? " on a worker"
          : absl::StrCat(" of ", BytesText(best.memory_limit_bytes()), " on the fullest worker"),
      "; ", absl::StrJoin(verdicts, "; ")));
}

}  // namespace

bool CanRun(const v1::JobSpec& spec, const v1::ModelLayout& layout,
            const v1::ClusterFacts& cluster) {
  if (cluster.worker().empty()) return false;
  const CostModel costs(layout, spec.model(), cluster, {});
  const ForecastJob job{spec, layout, cluster, costs};
  switch (spec.strategy()) {
    case v1::MODEL_PARALLEL:
      return ModelParallel(job).fits();
    case v1::HYBRID:
      return Hybrid(job).fits();
    case v1::AUTO:
      return DataParallel(job).fits() || ModelParallel(job).fits() || Hybrid(job).fits();
    default:
      return DataParallel(job).fits();
  }
}

v1::PlanReport MakeForecasts(const v1::JobSpec& spec, const v1::ModelLayout& layout,
                             const v1::ClusterFacts& cluster,
                             const std::vector<v1::BlockTime>& measured) {
  v1::PlanReport report;
  *report.mutable_cluster() = cluster;
  if (cluster.worker().empty()) {
    report.set_explanation("there are 0 workers, expected at least 1");
    return report;
  }
  const CostModel costs(layout, spec.model(), cluster, measured);
  report.set_measured(costs.measured());
  const ForecastJob job{spec, layout, cluster, costs};
  *report.add_forecast() = DataParallel(job);
  *report.add_forecast() = ModelParallel(job);
  *report.add_forecast() = Hybrid(job);
  Choose(spec.strategy() == v1::STRATEGY_UNSPECIFIED ? v1::DATA_PARALLEL : spec.strategy(),
         &report);
  return report;
}

}  // namespace sangam
