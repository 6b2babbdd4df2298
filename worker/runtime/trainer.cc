#include "worker/runtime/trainer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
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
#include "common/data/batch_reader.h"
#include "common/plan/batch_cut.h"
#include "common/plan/pipeline_layout.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "worker/core/load_sequence.h"
#include "worker/core/progress_ledger.h"
#include "worker/core/step_program.h"
#include "worker/core/timeline.h"
#include "worker/data/batch_source.h"
#include "worker/data/prefetcher.h"
#include "worker/runtime/batch_feed.h"
#include "worker/runtime/host_pins.h"
#include "worker/runtime/lane.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/run_parts.h"

namespace sangam {
namespace {

BatchCut CutOf(const PreparedJob& job, const v1::Assignment& assignment) {
  BatchCut cut = job.cut;
  cut.training_samples = assignment.train_samples();
  return cut;
}

Timeline TimelineOf(const PreparedJob& job, const v1::Assignment& assignment) {
  Timeline timeline;
  timeline.first_step = assignment.first_step();
  timeline.steps_total = assignment.steps_total();
  timeline.steps_per_epoch = assignment.steps_per_epoch();
  timeline.evaluate = assignment.test_samples() > 0;
  timeline.evaluate_every_epochs = job.spec.evaluation().every_epochs();
  return timeline;
}

uint64_t ChunksOf(const BatchCut& cut, uint64_t test_samples) {
  return NumEvaluationChunks(test_samples, cut.MaxMicroBatchSize());
}

ProgressLedger LedgerOf(const PreparedJob& job, const v1::Assignment& assignment) {
  return ProgressLedger(job.shares, static_cast<uint32_t>(job.lanes.size()),
                        static_cast<uint32_t>(ChunksOf(job.cut, assignment.test_samples())));
}

// Whether the numbers of the assignment fit one another and the data that this worker has opened.
absl::Status CheckLength(const PreparedJob& job, const v1::Assignment& run) {
  if (run.steps_total() == 0 || run.train_samples() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("found ", run.steps_total(), " steps over ",
                                                   run.train_samples(),
                                                   " samples, expected at least 1 of each"));
  }
  if (run.first_step() >= run.steps_total()) {
    return absl::InvalidArgumentError(absl::StrCat("first_step: found ", run.first_step(),
                                                   ", expected less than the job's ",
                                                   run.steps_total(), " steps"));
  }
  const BatchCut cut = CutOf(job, run);
  if (run.steps_per_epoch() != cut.StepsPerEpoch()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "steps_per_epoch: found ", run.steps_per_epoch(), ", expected ", cut.StepsPerEpoch(),
        " for ", cut.training_samples, " samples in batches of ", cut.batch_size));
  }
  if (job.data.train == nullptr) return absl::OkStatus();
  const bool tested = run.test_samples() > 0;
  if (job.data.train->num_samples() != run.train_samples() ||
      (tested && job.data.test_samples() != run.test_samples())) {
    return absl::InvalidArgumentError(
        absl::StrCat("train_samples and test_samples: found ", run.train_samples(), " and ",
                     run.test_samples(), ", expected ", job.data.train->num_samples(), " and ",
                     job.data.test_samples(), " as in the data"));
  }
  return absl::OkStatus();
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
      cut_(CutOf(*job, assignment)),
      test_samples_(assignment.test_samples()),
      timeline_(TimelineOf(*job, assignment)),
      reporter_(job->plan.job(), job->plan.generation(), LedgerOf(*job, assignment), sink) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(PreparedJob* job,
                                                         const v1::Assignment& assignment,
                                                         const Options& options, ReportSink* sink,
                                                         const BatchFeedFactory& make_feed) {
  RETURN_IF_ERROR(CheckLength(*job, assignment));
  std::unique_ptr<Trainer> trainer(new Trainer(job, assignment, options, sink));
  RETURN_IF_ERROR(trainer->BuildPrograms());
  if (job->wants_inputs() || job->wants_labels()) {
    RETURN_IF_ERROR(trainer->StartBatches(make_feed));
  }
  return trainer;
}

absl::Status Trainer::BuildPrograms() {
  ProgramInputs inputs;
  inputs.worker = job_->worker;
  inputs.lanes = static_cast<uint32_t>(job_->lanes.size());
  inputs.evaluation_chunks = ChunksOf(cut_, test_samples_);
  inputs.recompute = job_->recompute;
  inputs.group = job_->group;
  ASSIGN_OR_RETURN(train_, BuildStepProgram(job_->plan, inputs, RoundKind::kTrain));
  ASSIGN_OR_RETURN(evaluate_, BuildStepProgram(job_->plan, inputs, RoundKind::kEvaluate));
  ASSIGN_OR_RETURN(finish_, BuildStepProgram(job_->plan, inputs, RoundKind::kFinish));
  return absl::OkStatus();
}

absl::Status Trainer::StartBatches(const BatchFeedFactory& make_feed) {
  for (size_t l = 0; l < job_->lanes.size(); ++l) {
    loads_.emplace_back(timeline_, &train_, &evaluate_, l);
  }
  BatchSequence sequence = [this](size_t lane) { return NextBatch(lane); };
  if (job_->spec.data().served()) {
    ASSIGN_OR_RETURN(
        batches_, make_feed(job_->plan, job_->worker, job_->WantedBatches(), std::move(sequence)));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      batches_, Prefetcher::Start(job_->WantedBatches(), BatchReader(job_->spec, cut_, &job_->data),
                                  std::move(sequence)));
  return absl::OkStatus();
}

std::optional<BatchId> Trainer::NextBatch(size_t lane) {
  const std::optional<Load> load = loads_[lane].Next();
  if (!load.has_value()) return std::nullopt;
  return BatchId{load->round.kind == RoundKind::kEvaluate, load->round.step, load->index};
}

void Trainer::End(const absl::Status& reason) {
  if (!latch_.Trip(reason)) return;
  gate_.End();
  job_->store->Stop();
  if (job_->pipeline != nullptr && absl::IsCancelled(reason)) job_->pipeline->Stop();
  if (job_->pipeline != nullptr && !absl::IsCancelled(reason)) job_->pipeline->Fail(reason);
  if (batches_ != nullptr) batches_->Stop();
}

void Trainer::Stop() { End(absl::CancelledError("the run was stopped")); }

absl::Status Trainer::Run(const ParameterLinkFactory& make_link) {
  const absl::StatusOr<std::unique_ptr<ParameterLink>> made = make_link(job_->plan, job_->worker);
  if (!made.ok()) {
    End(made.status());
    return made.status();
  }
  ParameterLink* const link = made->get();
  Receiver receiver(this);
  absl::Status status =
      link->Start(SegmentsOf(job_->plan, job_->worker), timeline_.first_step, &receiver);
  if (status.ok() && job_->pipeline != nullptr) {
    status = job_->pipeline->Start([this](const absl::Status& failure) { End(failure); });
  }
  if (status.ok()) {
    status = RunLanes(link);
  } else {
    End(status);
  }
  CloseLinks(status.ok(), link);
  // A push into a link that has just failed knows less than the link, whose word has come by now.
  const absl::Status link_failure = job_->store->link_failure();
  if (absl::IsFailedPrecondition(status) && !link_failure.ok()) return link_failure;
  return status;
}

void Trainer::CloseLinks(bool in_order, ParameterLink* link) {
  // Neighbours first: they may be far from the end of their work, and until then they need the
  // streams between us.
  absl::Status closed;
  if (job_->pipeline != nullptr) {
    closed = job_->pipeline->Close(in_order ? options_.stall_limit : absl::ZeroDuration());
  }
  closed.Update(link->Close(in_order ? options_.close_deadline : absl::ZeroDuration()));
  if (!in_order || closed.ok()) return;
  // All weights have come: a peer that is slow to say goodbye changes nothing.
  LogWarning("link did not end in order", "job=%d generation=%d status=%s", job_->plan.job(),
             job_->plan.generation(), LogValue(closed.ToString()));
}

absl::Status Trainer::RunLanes(ParameterLink* link) {
  RunParts parts;
  parts.job = job_;
  parts.cut = cut_;
  parts.test_samples = test_samples_;
  parts.timeline = timeline_;
  parts.train = &train_;
  parts.evaluate = &evaluate_;
  parts.finish = &finish_;
  parts.batches = batches_.get();
  parts.link = link;
  parts.reporter = &reporter_;
  parts.latch = &latch_;
  parts.gate = &gate_;
  parts.stall_limit = options_.stall_limit;
  HostPins pins;
  parts.pins = &pins;
  parts.fail = [this](const absl::Status& status) { End(status); };
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
