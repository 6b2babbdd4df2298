#include "client/job_events.h"

#include <cstdint>

namespace sangam {
namespace {

// Those of weights from `step` on.
void ForgetEvaluations(uint64_t step, v1::Job* job) {
  auto* evaluations = job->mutable_evaluation();
  while (!evaluations->empty() && evaluations->rbegin()->step() >= step) evaluations->RemoveLast();
}

}  // namespace

void ApplyEvent(const v1::JobEvent& event, v1::Job* job) {
  v1::Progress& progress = *job->mutable_progress();
  if (event.steps_total() != 0) progress.set_steps_total(event.steps_total());
  if (event.steps_per_epoch() != 0) progress.set_steps_per_epoch(event.steps_per_epoch());
  switch (event.kind_case()) {
    case v1::JobEvent::kState:
      // The job as it was submitted already has its first changes.
      if (job->history_size() > 0) {
        const v1::StateChange& last = job->history(job->history_size() - 1);
        if (last.state() == event.state().state()) break;
      }
      *job->add_history() = event.state();
      job->set_state(event.state().state());
      job->set_reason(event.state().reason());
      break;
    case v1::JobEvent::kStep:
      // Of a job that started again, it may take the place of one that came before.
      ForgetEvaluations(event.step().step() + 1, job);
      progress.set_steps_done(event.step().step() + 1);
      progress.set_loss(event.step().loss());
      progress.set_samples(progress.samples() + event.step().samples());
      progress.set_samples_per_second(event.step().samples_per_second());
      break;
    case v1::JobEvent::kEvaluation:
      ForgetEvaluations(event.evaluation().step(), job);
      *job->add_evaluation() = event.evaluation();
      break;
    case v1::JobEvent::kMessage:
    case v1::JobEvent::KIND_NOT_SET:
    default:
      break;
  }
}

}  // namespace sangam
