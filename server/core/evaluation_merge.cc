#include "server/core/evaluation_merge.h"

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"

namespace sangam {

EvaluationMerge::EvaluationMerge(const TestSet& test_set, uint64_t steps_total,
                                 std::optional<uint64_t> last_complete)
    : test_set_(test_set),
      steps_total_(steps_total),
      num_chunks_(NumEvaluationChunks(test_set.samples, test_set.chunk_size)),
      last_complete_(last_complete) {}

absl::StatusOr<std::optional<v1::Evaluation>> EvaluationMerge::Add(
    const v1::EvaluationReport& report, const Share& share) {
  RETURN_IF_ERROR(Check(report, share), "evaluation at step %d", report.step());
  // Each worker reports its evaluations in order, so they also become complete in order.
  if (last_complete_.has_value() && report.step() <= *last_complete_) return std::nullopt;
  if (open_.count(report.step()) == 0 && open_.size() >= kMaxOpen) {
    return absl::ResourceExhaustedError(
        absl::StrCat("evaluation at step ", report.step(), ": ", open_.size(),
                     " earlier ones are incomplete, the first at step ", open_.begin()->first));
  }
  Chunks& chunks = open_[report.step()];
  for (const v1::EvaluationChunk& chunk : report.chunk()) chunks.emplace(chunk.chunk(), chunk);
  if (chunks.size() < num_chunks_) return std::nullopt;
  v1::Evaluation evaluation = Sum(report.step(), chunks);
  last_complete_ = report.step();
  open_.erase(report.step());
  return evaluation;
}

absl::Status EvaluationMerge::Check(const v1::EvaluationReport& report, const Share& share) const {
  if (num_chunks_ == 0) {
    return absl::InvalidArgumentError("expected none, the job has no test set");
  }
  if (report.step() > steps_total_) {
    return absl::InvalidArgumentError(absl::StrCat("expected a step of at most ", steps_total_));
  }
  if (report.chunks_total() != num_chunks_) {
    return absl::InvalidArgumentError(absl::StrCat("found ", report.chunks_total(),
                                                   " chunks in all, expected ", num_chunks_,
                                                   " for ", test_set_.samples, " samples"));
  }
  for (const v1::EvaluationChunk& chunk : report.chunk()) {
    if (chunk.chunk() >= num_chunks_ || share.parts == 0 ||
        chunk.chunk() % share.parts != share.part) {
      return absl::InvalidArgumentError(absl::StrCat("found chunk ", chunk.chunk(),
                                                     ", expected one below ", num_chunks_,
                                                     " of part ", share.part, " of ", share.parts));
    }
    const uint64_t expected =
        EvaluationChunk(test_set_.samples, test_set_.chunk_size, chunk.chunk()).size();
    const uint64_t terms = expected * test_set_.terms_per_sample;
    if (chunk.samples() != expected || chunk.correct() > terms) {
      return absl::InvalidArgumentError(absl::StrCat(
          "found ", chunk.correct(), " correct in ", chunk.samples(), " samples of chunk ",
          chunk.chunk(), ", expected ", expected, " samples and at most ", terms, " correct"));
    }
  }
  return absl::OkStatus();
}

v1::Evaluation EvaluationMerge::Sum(uint64_t step, const Chunks& chunks) const {
  v1::Evaluation evaluation;
  evaluation.set_step(step);
  double loss_sum = 0;
  uint64_t correct = 0;
  for (const auto& [index, chunk] : chunks) {
    loss_sum += chunk.loss_sum();
    correct += chunk.correct();
  }
  const auto terms = static_cast<double>(test_set_.samples * test_set_.terms_per_sample);
  evaluation.set_samples(test_set_.samples);
  evaluation.set_correct(correct);
  evaluation.set_loss(loss_sum / terms);
  evaluation.set_accuracy(static_cast<double>(correct) / terms);
  return evaluation;
}

}  // namespace sangam
