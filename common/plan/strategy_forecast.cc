#include "common/plan/strategy_forecast.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "common/plan/cost_model.h"
#include "common/plan/forecast_text.h"
#include "common/plan/pipeline_layout.h"
#include "common/plan/plan_shape.h"
#include "common/plan/schedule.h"
#include "common/plan/schedule_check.h"
#include "common/plan/span.h"
#include "common/plan/stage_cut.h"
#include "common/plan/stage_memory.h"
#include "common/plan/worker_memory.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

// Forward passes of one lane's schedule, all stages together.
constexpr uint64_t kMaxPasses = uint64_t{1} << 16;

// Cuts of one pipeline, each for the credits that the one before needs.
constexpr int kMaxCuts = 4;

uint32_t ThreadsOf(const ForecastJob& job, uint32_t worker) {
  return std::max<uint32_t>(1, job.cluster.worker(static_cast<int>(worker)).threads());
}

uint64_t LimitOf(const ForecastJob& job, uint32_t worker) {
  return job.cluster.worker(static_cast<int>(worker)).memory_bytes();
}

// Part of a limit; 0 means that there is none.
double Fullness(uint64_t needed, uint64_t limit) {
  return limit == 0 ? 0 : static_cast<double>(needed) / static_cast<double>(limit);
}

uint64_t RowsOf(const ForecastJob& job) {
  BatchCut cut;
  cut.batch_size = job.spec.batch().size();
  cut.micro_batches = job.spec.batch().micro_batches();
  return cut.MaxMicroBatchSize();
}

ShareSpan SharesOf(const v1::WorkerPlan& worker) {
  return {worker.shares().begin(), worker.shares().end()};
}

std::vector<StageSkip> SkipsOf(const v1::Plan& plan) {
  std::vector<StageSkip> skips;
  for (const Boundary& boundary : BoundariesOf(plan)) {
    // Boundaries of skip connections come after the chain's.
    if (boundary.id < static_cast<uint32_t>(plan.layout().block_size())) continue;
    skips.push_back({boundary.from_stage, boundary.to_stage});
  }
  return skips;
}

// One spread with a given number of lanes.
class Forecaster {
 public:
  Forecaster(const ForecastJob& job, const Spread& spread, uint32_t lanes)
      : job_(job), spread_(spread), lanes_(lanes), rows_(RowsOf(job)) {}

  // Errors: what keeps the job from running like this, also in the forecast; ResourceExhausted when
  //         it is memory and fewer lanes could help, and then perhaps nothing else in the forecast
  absl::Status Make(v1::StrategyForecast* forecast) const;

 private:
  // What a cut must know of the workers of one rank, each number the worst of them.
  struct RankFacts {
    double seconds_per_unit = 0;
    uint64_t limit = 0;  // 0: none
    WorkerLoad load;
  };

  using Stages = std::vector<v1::StagePlan>;

  bool pipelined() const { return spread_.ranks > 1; }
  uint32_t num_stages() const { return spread_.ranks * spread_.chunks; }
  uint32_t Lanes(const v1::Plan& plan, uint32_t worker) const {
    const ShareSpan shares = SharesOf(plan.worker(static_cast<int>(worker)));
    return pipelined() ? lanes_
                       : std::max<uint32_t>(1, std::min(ThreadsOf(job_, worker), shares.size()));
  }

  absl::Status Fill(v1::StrategyForecast* forecast) const;
  absl::StatusOr<v1::Plan> PlanWith(std::vector<v1::StagePlan> stages, uint32_t credits) const;
  absl::StatusOr<Stages> StagesOfPlan() const;
  absl::StatusOr<Stages> CutByPlanner() const;
  // The fastest cut whose stages fit, which keeps to the credits that it was made for.
  absl::StatusOr<Stages> CutToFit(uint32_t credits, std::vector<RankFacts>* ranks) const;
  // The fastest cut if the workers can hold it; else whichever leaves less to be wished for, of it
  // and the leanest one.
  absl::StatusOr<Stages> CutChunks(const std::vector<RankFacts>& ranks) const;
  absl::StatusOr<Stages> FastestCut(const std::vector<RankFacts>& ranks, bool fitting) const;
  absl::StatusOr<Stages> LeanestCut(const std::vector<RankFacts>& ranks) const;
  // Of the worker that is, with the fewest credits that the job may have.
  absl::StatusOr<double> MostFullness(const Stages& stages) const;
  std::vector<RankFacts> FactsOfRanks(const v1::Plan& even, uint32_t credits) const;
  SchedulePlay PlayOf(const v1::Plan& plan, uint32_t micro_batches) const;
  // An evaluation, as far as it decides the credits.
  SchedulePlay EvaluationPlayOf(const v1::Plan& plan) const;
  std::set<uint32_t> LaneSizes(const v1::Plan& plan) const;
  // Keeps the time of a forecast within bounds.
  // Errors: FailedPrecondition  too many passes for the threads that the workers have
  absl::Status CheckSize() const;
  // For every number of micro-batches that a lane can have. Fewer, in a short batch, need no more.
  absl::StatusOr<uint32_t> LeastOf(const v1::Plan& plan) const;
  absl::StatusOr<uint32_t> AmpleOf(const v1::Plan& plan) const;
  // What an evaluation needs.
  absl::StatusOr<uint32_t> EvaluationCredits(const v1::Plan& plan) const;
  absl::StatusOr<std::vector<WorkerMemory>> Memories(const v1::Plan& plan) const;
  // Index of the worker that fills its limit most; nothing has a limit: that needs most.
  uint32_t Fullest(const std::vector<WorkerMemory>& memories) const;
  bool FitsAll(const std::vector<WorkerMemory>& memories) const;
  absl::Status SetCredits(v1::Plan* plan, std::vector<std::string>* obstacles) const;
  absl::Status AddTimes(const v1::Plan& plan, v1::StrategyForecast* forecast) const;
  void AddStages(const v1::Plan& plan, const std::vector<WorkerMemory>& memories,
                 v1::StrategyForecast* forecast) const;

  const ForecastJob& job_;
  const Spread& spread_;
  const uint32_t lanes_;
  const uint64_t rows_;  // of the largest micro-batch
  // LeastOf by the ends of the skip connections: nothing else of a cut decides it.
  mutable std::map<std::vector<std::pair<uint32_t, uint32_t>>, uint32_t> least_;
};

absl::Status Forecaster::Make(v1::StrategyForecast* forecast) const {
  forecast->set_strategy(spread_.strategy);
  forecast->set_ranks(spread_.ranks);
  forecast->set_replicas(spread_.replicas);
  forecast->set_chunks(spread_.chunks);
  const v1::Schedule schedule = job_.spec.pipeline().schedule();
  forecast->set_schedule(pipelined() && schedule != v1::SCHEDULE_UNSPECIFIED ? schedule
                                                                             : v1::ONE_F_ONE_B);
  forecast->set_lanes(pipelined() ? lanes_ : 0);
  forecast->set_credits(1);
  forecast->set_idle_workers(static_cast<uint32_t>(job_.cluster.worker_size()) -
                             spread_.ranks * spread_.replicas);
  Describe(job_.spec.batch().shares(), forecast);
  absl::Status status = Fill(forecast);
  forecast->set_fits(status.ok());
  forecast->set_obstacle(std::string(status.message()));
  return status;
}

absl::StatusOr<v1::Plan> Forecaster::PlanWith(std::vector<v1::StagePlan> stages,
                                              uint32_t credits) const {
  PlanShape shape;
  shape.ranks = spread_.ranks;
  shape.replicas = spread_.replicas;
  if (job_.spec.pipeline().schedule() != v1::SCHEDULE_UNSPECIFIED) {
    shape.schedule = job_.spec.pipeline().schedule();
  }
  shape.credits = credits;
  shape.lanes = lanes_;
  shape.stages = std::move(stages);
  std::vector<v1::WorkerPlan> workers;
  for (const v1::WorkerFacts& facts : job_.cluster.worker()) {
    workers.emplace_back().set_name(facts.name());
  }
  return SpreadJob(shape, workers, job_.spec, job_.layout);
}

absl::StatusOr<Forecaster::Stages> Forecaster::StagesOfPlan() const {
  if (!pipelined()) {
    Stages all(1);
    all[0].set_block_count(static_cast<uint32_t>(job_.layout.block_size()));
    return all;
  }
  if (job_.spec.pipeline().cut_size() > 0) return CutByNames(job_.spec.pipeline(), job_.layout);
  return CutByPlanner();
}

std::vector<Forecaster::RankFacts> Forecaster::FactsOfRanks(const v1::Plan& even,
                                                            uint32_t credits) const {
  std::vector<RankFacts> ranks(spread_.ranks);
  for (uint32_t w = 0; w < spread_.ranks * spread_.replicas; ++w) {
    RankFacts& facts = ranks[even.worker(static_cast<int>(w)).rank()];
    facts.seconds_per_unit = std::max(facts.seconds_per_unit, job_.costs.SecondsPerUnit(w));
    const uint64_t limit = LimitOf(job_, w);
    if (limit != 0) facts.limit = facts.limit == 0 ? limit : std::min(facts.limit, limit);
    facts.load.rows = rows_;
    facts.load.lanes = lanes_;
    facts.load.credits = credits;
    facts.load.splits_backward = SplitsBackward(even.schedule());
    facts.load.gradient_buffers = std::max(
        facts.load.gradient_buffers,
        GradientBuffers(SharesOf(even.worker(static_cast<int>(w))), even.shares(), lanes_));
    const std::vector<uint32_t> slots = LaneSlots(even, w, lanes_);
    if (facts.load.slots.empty()) facts.load.slots.assign(slots.size(), 0);
    for (size_t c = 0; c < slots.size(); ++c) {
      facts.load.slots[c] = std::max(facts.load.slots[c], slots[c]);
    }
  }
  return ranks;
}

absl::StatusOr<Forecaster::Stages> Forecaster::FastestCut(const std::vector<RankFacts>& ranks,
                                                          bool fitting) const {
  const auto blocks = static_cast<uint32_t>(job_.layout.block_size());
  const StageMemory memory(job_.layout, job_.spec.model(), ranks.front().load.splits_backward);
  std::vector<double> entry(blocks, 0);
  for (uint32_t b = 1; b < blocks; ++b) {
    entry[b] = job_.costs.EntrySeconds(job_.layout, b, rows_, lanes_);
  }
  return CutBlocks(blocks, num_stages(), [&](uint32_t stage, uint32_t first, uint32_t end) {
    const RankFacts& facts = ranks[stage % spread_.ranks];
    StageCost cost;
    cost.load = job_.costs.Cost(first, end - first).total() * facts.seconds_per_unit *
                static_cast<double>(rows_);
    cost.other = entry[first];
    if (!fitting || facts.limit == 0) return cost;
    const StageMemory::Bytes bytes = memory.Of(first, end, stage / spread_.ranks, facts.load);
    if (bytes.within > facts.limit) cost.load = kImpossible;
    if (bytes.total > facts.limit) cost.other = kImpossible;
    return cost;
  });
}

absl::StatusOr<Forecaster::Stages> Forecaster::LeanestCut(
    const std::vector<RankFacts>& ranks) const {
  const auto blocks = static_cast<uint32_t>(job_.layout.block_size());
  const StageMemory memory(job_.layout, job_.spec.model(), ranks.front().load.splits_backward);
  return CutBlocks(blocks, num_stages(), [&](uint32_t stage, uint32_t first, uint32_t end) {
    const RankFacts& facts = ranks[stage % spread_.ranks];
    const StageMemory::Bytes bytes = memory.Of(first, end, stage / spread_.ranks, facts.load);
    return StageCost{Fullness(bytes.within, facts.limit), Fullness(bytes.total, facts.limit)};
  });
}

absl::StatusOr<Forecaster::Stages> Forecaster::CutToFit(uint32_t credits,
                                                        std::vector<RankFacts>* ranks) const {
  absl::StatusOr<Stages> fitting;
  for (int round = 0; round < kMaxCuts; ++round) {
    for (RankFacts& facts : *ranks) facts.load.credits = credits;
    absl::StatusOr<Stages> cut = FastestCut(*ranks, true);
    if (job_.spec.pipeline().has_credits()) return cut;
    if (!cut.ok() && (credits == 1 || fitting.ok())) break;
    uint32_t needed = 1;  // perhaps some cut can do with that
    if (cut.ok()) {
      ASSIGN_OR_RETURN(const v1::Plan plan, PlanWith(*cut, 1));
      ASSIGN_OR_RETURN(needed, LeastOf(plan));
    }
    if (cut.ok() && needed <= credits) fitting = std::move(cut);
    if (needed == credits) break;
    credits = needed;
  }
  if (fitting.ok()) return fitting;
  return absl::ResourceExhaustedError(absl::StrCat("no cut fits with ", credits, " credits"));
}

absl::StatusOr<double> Forecaster::MostFullness(const Stages& stages) const {
  ASSIGN_OR_RETURN(v1::Plan plan, PlanWith(stages, job_.spec.pipeline().credits()));
  if (!job_.spec.pipeline().has_credits()) {
    ASSIGN_OR_RETURN(const uint32_t least, LeastOf(plan));
    plan.set_credits(least);
  }
  ASSIGN_OR_RETURN(const std::vector<WorkerMemory> memories, Memories(plan));
  const uint32_t fullest = Fullest(memories);
  return Fullness(memories[fullest].total(), LimitOf(job_, fullest));
}

absl::StatusOr<Forecaster::Stages> Forecaster::CutChunks(
    const std::vector<RankFacts>& ranks) const {
  ASSIGN_OR_RETURN(Stages fastest, FastestCut(ranks, false));
  ASSIGN_OR_RETURN(const double fullness, MostFullness(fastest));
  if (fullness <= 1) return fastest;
  ASSIGN_OR_RETURN(Stages leanest, LeanestCut(ranks));
  ASSIGN_OR_RETURN(const double least, MostFullness(leanest));
  return least < fullness ? leanest : fastest;
}

absl::StatusOr<Forecaster::Stages> Forecaster::CutByPlanner() const {
  const auto blocks = static_cast<uint32_t>(job_.layout.block_size());
  // Shares and slots do not depend on where the cuts are, and credits hardly: any will do.
  Stages even(num_stages());
  for (uint32_t s = 0; s < num_stages(); ++s) {
    const IndexRange range = EvenPart(blocks, num_stages(), s);
    even[s].set_first_block(static_cast<uint32_t>(range.begin));
    even[s].set_block_count(static_cast<uint32_t>(range.size()));
  }
  ASSIGN_OR_RETURN(const v1::Plan plan, PlanWith(even, 1));
  uint32_t credits = job_.spec.pipeline().credits();
  if (!job_.spec.pipeline().has_credits()) {
    ASSIGN_OR_RETURN(credits, LeastOf(plan));
  }
  std::vector<RankFacts> ranks = FactsOfRanks(plan, credits);
  if (spread_.chunks > 1) return CutChunks(ranks);
  absl::StatusOr<Stages> cut = CutToFit(credits, &ranks);
  if (lanes_ > 1 || cut.ok() || !absl::IsResourceExhausted(cut.status())) return cut;
  // None was found that fits: the leanest one does after all or shows how much is missing.
  for (RankFacts& facts : ranks) facts.load.credits = credits;
  return LeanestCut(ranks);
}

SchedulePlay Forecaster::PlayOf(const v1::Plan& plan, uint32_t micro_batches) const {
  const ScheduleShape shape{plan.schedule(), plan.ranks(), ChunksOf(plan), micro_batches};
  SchedulePlay play;
  play.ranks = shape.ranks;
  play.chunks = shape.chunks;
  play.micro_batches = micro_batches;
  for (uint32_t r = 0; r < shape.ranks; ++r) play.passes.push_back(RankPasses(shape, r));
  play.skips = SkipsOf(plan);
  play.times = TimesOf(plan, job_.costs, rows_, lanes_);
  return play;
}

SchedulePlay Forecaster::EvaluationPlayOf(const v1::Plan& plan) const {
  // What waits depends on the number of chunks only while they are fewer than the ranks.
  const uint32_t chunks_of_data = 2 * plan.ranks();
  SchedulePlay play = PlayOf(plan, chunks_of_data);
  const ScheduleShape shape{plan.schedule(), plan.ranks(), ChunksOf(plan), chunks_of_data};
  for (uint32_t r = 0; r < shape.ranks; ++r) play.passes[r] = RankForwards(shape, r);
  return play;
}

std::set<uint32_t> Forecaster::LaneSizes(const v1::Plan& plan) const {
  std::set<uint32_t> sizes;
  for (uint32_t p = 0; p < spread_.replicas; ++p) {
    const v1::WorkerPlan& worker = plan.worker(static_cast<int>(p * spread_.ranks));
    sizes.merge(LaneMicroBatches(plan, SharesOf(worker), lanes_));
  }
  return sizes;
}

absl::StatusOr<uint32_t> Forecaster::EvaluationCredits(const v1::Plan& plan) const {
  // RankForwards: one does unless there are both.
  if (spread_.chunks == 1 || SkipsOf(plan).empty()) return 1;
  return LeastCredits(EvaluationPlayOf(plan));
}

absl::StatusOr<uint32_t> Forecaster::LeastOf(const v1::Plan& plan) const {
  std::vector<std::pair<uint32_t, uint32_t>> key;
  for (const StageSkip& skip : SkipsOf(plan)) key.emplace_back(skip.from_stage, skip.to_stage);
  const auto known = least_.find(key);
  if (known != least_.end()) return known->second;
  ASSIGN_OR_RETURN(uint32_t credits, EvaluationCredits(plan));
  for (const uint32_t micro_batches : LaneSizes(plan)) {
    ASSIGN_OR_RETURN(const uint32_t least, LeastCredits(PlayOf(plan, micro_batches)));
    credits = std::max(credits, least);
  }
  least_.emplace(std::move(key), credits);
  return credits;
}

absl::StatusOr<uint32_t> Forecaster::AmpleOf(const v1::Plan& plan) const {
  ASSIGN_OR_RETURN(uint32_t credits, EvaluationCredits(plan));
  for (const uint32_t micro_batches : LaneSizes(plan)) {
    ASSIGN_OR_RETURN(const uint32_t ample, AmpleCredits(PlayOf(plan, micro_batches)));
    credits = std::max(credits, ample);
  }
  return credits;
}

absl::StatusOr<std::vector<WorkerMemory>> Forecaster::Memories(const v1::Plan& plan) const {
  std::vector<WorkerMemory> memories;
  for (uint32_t w = 0; w < spread_.ranks * spread_.replicas; ++w) {
    ASSIGN_OR_RETURN(WorkerMemory memory, MemoryOf(plan, job_.spec, w, Lanes(plan, w)));
    memories.push_back(memory);
  }
  return memories;
}

uint32_t Forecaster::Fullest(const std::vector<WorkerMemory>& memories) const {
  const auto key = [&](uint32_t w) {
    return std::pair(Fullness(memories[w].total(), LimitOf(job_, w)), memories[w].total());
  };
  uint32_t fullest = 0;
  for (uint32_t w = 1; w < memories.size(); ++w) {
    if (key(w) > key(fullest)) fullest = w;
  }
  return fullest;
}

bool Forecaster::FitsAll(const std::vector<WorkerMemory>& memories) const {
  for (uint32_t w = 0; w < memories.size(); ++w) {
    if (LimitOf(job_, w) != 0 && memories[w].total() > LimitOf(job_, w)) return false;
  }
  return true;
}

absl::Status Forecaster::AddTimes(const v1::Plan& plan, v1::StrategyForecast* forecast) const {
  const StepTraffic traffic = TrafficOf(plan, job_.spec, job_.cluster, job_.costs);
  forecast->set_parameter_wire_bytes(traffic.parameter_bytes);
  forecast->set_activation_wire_bytes(traffic.activation_bytes);
  double makespan = 0;
  if (pipelined()) {
    SchedulePlay play = PlayOf(plan, *LaneSizes(plan).rbegin());
    play.credits = plan.credits();
    ASSIGN_OR_RETURN(const ScheduleReport report, PlaySchedule(play));
    makespan = report.makespan;
    forecast->set_bubble(report.bubble);
  } else {
    const double work =
        job_.costs.Cost(0, static_cast<uint32_t>(plan.layout().block_size())).total();
    for (uint32_t w = 0; w < spread_.replicas; ++w) {
      const uint32_t micro_batches =
          *LaneMicroBatches(plan, SharesOf(plan.worker(static_cast<int>(w))), Lanes(plan, w))
               .rbegin();
      makespan = std::max(makespan, static_cast<double>(micro_batches * rows_) * work *
                                        job_.costs.SecondsPerUnit(w));
    }
  }
  forecast->set_step_seconds(makespan + traffic.parameter_seconds);
  return absl::OkStatus();
}

void Forecaster::AddStages(const v1::Plan& plan, const std::vector<WorkerMemory>& memories,
                           v1::StrategyForecast* forecast) const {
  const std::vector<StageTimes> times = TimesOf(plan, job_.costs, rows_, lanes_);
  const std::vector<Boundary> boundaries = BoundariesOf(plan);
  for (uint32_t s = 0; s < num_stages(); ++s) {
    const v1::StagePlan& blocks = plan.stage(static_cast<int>(s));
    const uint32_t end = blocks.first_block() + blocks.block_count();
    v1::StageForecast* stage = forecast->add_stage();
    stage->set_first_block(blocks.first_block());
    stage->set_block_count(blocks.block_count());
    stage->set_first_block_name(plan.layout().block(static_cast<int>(blocks.first_block())).name());
    stage->set_last_block_name(plan.layout().block(static_cast<int>(end - 1)).name());
    for (const v1::SegmentLayout& segment : plan.layout().segment()) {
      const bool own = segment.block() >= blocks.first_block() && segment.block() < end;
      if (own) stage->set_parameter_count(stage->parameter_count() + segment.element_count());
    }
    stage->set_forward_seconds(times[s].forward);
    stage->set_backward_seconds(times[s].backward_input + times[s].backward_weights);
    for (uint32_t w = s % spread_.ranks; w < memories.size(); w += spread_.ranks) {
      stage->add_worker(plan.worker(static_cast<int>(w)).name());
      stage->set_memory_bytes(std::max(stage->memory_bytes(), memories[w].total()));
      const uint64_t limit = LimitOf(job_, w);
      if (limit != 0 && (stage->memory_limit_bytes() == 0 || limit < stage->memory_limit_bytes())) {
        stage->set_memory_limit_bytes(limit);
      }
      const uint32_t lanes = Lanes(plan, w);
      const uint32_t slots = LaneSlots(plan, w, lanes)[s / spread_.ranks];
      stage->set_in_flight(std::max(stage->in_flight(), slots * lanes));
    }
    for (const Boundary& boundary : boundaries) {
      if (boundary.from_stage != s) continue;
      stage->set_output_bytes(stage->output_bytes() + boundary.columns * sizeof(float) * rows_);
    }
  }
}

absl::Status Forecaster::CheckSize() const {
  const auto ceil = [](uint64_t a, uint64_t b) { return (a + b - 1) / b; };
  const v1::BatchSpec& batch = job_.spec.batch();
  const uint64_t shares = ceil(ceil(batch.shares(), spread_.replicas), lanes_);
  const uint64_t passes = shares * ceil(batch.micro_batches(), batch.shares()) * num_stages();
  if (!pipelined() || passes <= kMaxPasses) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("batch.micro_batches: found ", batch.micro_batches(), ", which make ", passes,
                   " forward passes of ", num_stages(), " stages on each of ", lanes_,
                   lanes_ == 1 ? " lane" : " lanes", ", expected at most ", kMaxPasses));
}

absl::Status Forecaster::SetCredits(v1::Plan* plan, std::vector<std::string>* obstacles) const {
  if (!pipelined()) return absl::OkStatus();
  const v1::PipelineSpec& pipeline = job_.spec.pipeline();
  ASSIGN_OR_RETURN(const uint32_t least, LeastOf(*plan));
  if (pipeline.has_credits() && pipeline.credits() < least) {
    obstacles->push_back(
        absl::StrCat("pipeline.credits: found ", pipeline.credits(), ", expected at least ", least,
                     " for ", PipelineText(plan->schedule(), spread_.ranks, spread_.chunks)));
    plan->set_credits(least);
    return absl::OkStatus();
  }
  if (pipeline.has_credits()) {
    plan->set_credits(pipeline.credits());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const uint32_t ample, AmpleOf(*plan));
  // Played times know nothing of a busy machine: one tensor may travel while another waits.
  constexpr uint32_t kDoubleBuffered = 2;
  plan->set_credits(std::max({least, ample, kDoubleBuffered}));
  ASSIGN_OR_RETURN(const std::vector<WorkerMemory> memories, Memories(*plan));
  if (!FitsAll(memories)) plan->set_credits(least);
  return absl::OkStatus();
}

absl::Status Forecaster::Fill(v1::StrategyForecast* forecast) const {
  RETURN_IF_ERROR(CheckSize());
  ASSIGN_OR_RETURN(const Stages stages, StagesOfPlan());
  ASSIGN_OR_RETURN(v1::Plan plan, PlanWith(stages, 1));
  std::vector<std::string> obstacles;
  RETURN_IF_ERROR(SetCredits(&plan, &obstacles));
  forecast->set_credits(plan.credits());
  ASSIGN_OR_RETURN(const std::vector<WorkerMemory> memories, Memories(plan));
  const uint32_t fullest = Fullest(memories);
  forecast->set_memory_bytes(memories[fullest].total());
  forecast->set_memory_limit_bytes(LimitOf(job_, fullest));
  const bool too_large = !FitsAll(memories);
  if (too_large) {
    obstacles.push_back(MemoryObstacle(plan.worker(static_cast<int>(fullest)).name(),
                                       memories[fullest].total(), LimitOf(job_, fullest)));
  }
  AddStages(plan, memories, forecast);
  RETURN_IF_ERROR(AddTimes(plan, forecast));
  if (obstacles.empty()) return absl::OkStatus();
  return absl::Status(
      too_large ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInvalidArgument,
      absl::StrJoin(obstacles, "; "));
}

// Most lanes of a pipeline's workers.
uint32_t MostLanes(const ForecastJob& job, const Spread& spread) {
  uint32_t lanes = job.spec.batch().shares() / spread.replicas;
  for (uint32_t w = 0; w < spread.ranks * spread.replicas; ++w) {
    lanes = std::min(lanes, ThreadsOf(job, w));
  }
  return std::max<uint32_t>(1, lanes);
}

}  // namespace

v1::StrategyForecast ForecastStrategy(const ForecastJob& job, const Spread& spread) {
  for (uint32_t lanes = spread.ranks == 1 ? 1 : MostLanes(job, spread);; lanes /= 2) {
    v1::StrategyForecast forecast;
    const absl::Status status = Forecaster(job, spread, lanes).Make(&forecast);
    if (lanes == 1 || !absl::IsResourceExhausted(status)) return forecast;
  }
}

}  // namespace sangam
