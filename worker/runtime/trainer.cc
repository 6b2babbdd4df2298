#include "worker/runtime/trainer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "worker/core/load_sequence.h"
#include "worker/core/progress_ledger.h"
#include "worker/core/step_program.h"
#include "worker/core/timeline.h"
#include "worker/data/prefetcher.h"
#include "worker/data/sampler.h"
#include "worker/runtime/lane.h"
#include "worker/runtime/parameter_link.h"

namespace sangam {
namespace {

Timeline TimelineOf(const v1::Assignment& assignment, const PreparedJob& job) {
  Timeline timeline;
  timeline.steps_total = assignment.steps_total();
  timeline.steps_per_epoch = assignment.steps_per_epoch();
  timeline.evaluate = job.evaluation_chunks > 0;
  timeline.evaluate_every_epochs = job.spec.evaluation().every_epochs();
  return timeline;
}

ProgressLedger LedgerOf(const PreparedJob& job) {
  return ProgressLedger(job.shares, static_cast<uint32_t>(job.lanes.size()),
                        static_cast<uint32_t>(job.evaluation_chunks));
}

}  // namespace

// Lays weights down in the store; a failure of the link ends the run at once, also when no lane
// waits for weights.
class Trainer::Receiver : public WeightsReceiver {
 public:
  explicit Receiver(Trainer* trainer) : trainer_(trainer) {}
  absl::Status OnWeights(const v1::FrameHeader& header, const SlicePayload& elements) override {
    return trainer_->job_->store->OnWeights(header, elements);
  }
  void OnLinkFailed(const absl::Status& status) override {
    // The reason before those who wait: a lane that is woken must not give one of its own.
    trainer_->End(status);
    trainer_->job_->store->OnLinkFailed(status);
  }

 private:
  Trainer* const trainer_;
};

Trainer::Trainer(PreparedJob* job, const v1::Assignment& assignment, const Options& options,
                 ReportSink* sink)
    : job_(job),
      options_(options),
      timeline_(TimelineOf(assignment, *job)),
      reporter_(job->plan.job(), job->plan.generation(), LedgerOf(*job), sink) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(PreparedJob* job,
                                                         const v1::Assignment& assignment,
                                                         const Options& options, ReportSink* sink) {
  if (assignment.steps_total() == 0) {
    return absl::InvalidArgumentError("steps_total: found 0, expected at least 1");
  }
  if (assignment.steps_per_epoch() != job->cut.StepsPerEpoch()) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps_per_epoch: found ", assignment.steps_per_epoch(), ", expected ",
                     job->cut.StepsPerEpoch(), " for ", job->cut.training_samples,
                     " samples in batches of ", job->cut.batch_size));
  }
  std::unique_ptr<Trainer> trainer(new Trainer(job, assignment, options, sink));
  RETURN_IF_ERROR(trainer->BuildPrograms());
  for (size_t l = 0; l < job->lanes.size(); ++l) {
    trainer->loads_.push_back(
        {LoadSequence(trainer->timeline_, &trainer->train_.lanes[l], &trainer->evaluate_.lanes[l]),
         0, std::nullopt});
  }
  ASSIGN_OR_RETURN(trainer->prefetcher_,
                   Prefetcher::Start(job->PrefetchOptions(), [raw = trainer.get()](size_t lane) {
                     return raw->NextRun(lane);
                   }));
  return trainer;
}

absl::Status Trainer::BuildPrograms() {
  ProgramInputs inputs;
  inputs.worker = job_->worker;
  inputs.lanes = static_cast<uint32_t>(job_->lanes.size());
  inputs.evaluation_chunks = job_->evaluation_chunks;
  ASSIGN_OR_RETURN(train_, BuildStepProgram(job_->plan, inputs, RoundKind::kTrain));
  ASSIGN_OR_RETURN(evaluate_, BuildStepProgram(job_->plan, inputs, RoundKind::kEvaluate));
  ASSIGN_OR_RETURN(finish_, BuildStepProgram(job_->plan, inputs, RoundKind::kFinish));
  return absl::OkStatus();
}

std::optional<SampleRun> Trainer::NextRun(size_t lane) {
  LaneLoads& loads = loads_[lane];
  const std::optional<Load> load = loads.loads.Next();
  if (!load.has_value()) return std::nullopt;
  const BatchCut& cut = job_->cut;
  SampleRun run;
  run.tag = load->index;
  if (load->round.kind == RoundKind::kEvaluate) {
    const IndexRange chunk =
        EvaluationChunk(job_->data.test_samples(), cut.MaxMicroBatchSize(), load->index);
    run.dataset = job_->data.test.get();
    run.order = Sampler::InOrder(run.dataset->num_samples());
    run.first = chunk.begin;
    run.count = chunk.size();
    return run;
  }
  const uint64_t step = load->round.step;
  const uint64_t epoch = cut.EpochOf(step);
  if (!loads.order.has_value() || loads.epoch != epoch) {
    loads.epoch = epoch;
    loads.order = job_->spec.data().no_shuffle()
                      ? Sampler::InOrder(cut.training_samples)
                      : Sampler::Shuffled(job_->spec.seed(), epoch, cut.training_samples);
  }
  const IndexRange part = cut.MicroBatch(step, load->index);
  run.dataset = job_->data.train.get();
  run.order = *loads.order;
  run.first = cut.BatchSamples(step).begin + part.begin;
  run.count = part.size();
  return run;
}

void Trainer::End(const absl::Status& reason) {
  if (!latch_.Trip(reason)) return;
  job_->store->Stop();
  prefetcher_->Stop();
}

void Trainer::Stop() { End(absl::CancelledError("the run was stopped")); }

absl::Status Trainer::Run(const ParameterLinkFactory& make_link) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ParameterLink> link, make_link(job_->plan, job_->worker));
  Receiver receiver(this);
  std::vector<uint32_t> segments(static_cast<size_t>(job_->plan.layout().segment_size()));
  std::iota(segments.begin(), segments.end(), 0);
  absl::Status status = link->Start(segments, timeline_.first_step, &receiver);
  if (status.ok()) status = RunLanes(link.get());
  const absl::Status closed =
      link->Close(status.ok() ? options_.close_deadline : absl::ZeroDuration());
  if (status.ok() && !closed.ok()) {
    // All weights have come: a server that is slow to say goodbye changes nothing.
    LogWarning("link did not end in order", "job=%d generation=%d status=%s", job_->plan.job(),
               job_->plan.generation(), LogValue(closed.ToString()));
  }
  // A push into a link that has just failed knows less than the link, whose word has come by now.
  const absl::Status link_failure = job_->store->link_failure();
  if (absl::IsFailedPrecondition(status) && !link_failure.ok()) return link_failure;
  return status;
}

absl::Status Trainer::RunLanes(ParameterLink* link) {
  RunParts parts;
  parts.job = job_;
  parts.timeline = timeline_;
  parts.train = &train_;
  parts.evaluate = &evaluate_;
  parts.finish = &finish_;
  parts.prefetcher = prefetcher_.get();
  parts.link = link;
  parts.reporter = &reporter_;
  parts.latch = &latch_;
  parts.stall_limit = options_.stall_limit;
  std::vector<std::thread> threads;
  for (size_t l = 0; l < job_->lanes.size(); ++l) {
    threads.emplace_back([this, &parts, l] {
      const absl::Status status = Lane(parts, static_cast<uint32_t>(l)).Run();
      if (!status.ok()) End(status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return latch_.reason();
}

}  // namespace sangam
