#ifndef SANGAM_SERVER_CORE_EVALUATION_MERGE_H_
#define SANGAM_SERVER_CORE_EVALUATION_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"

namespace sangam {

// Puts the chunks of the test set that the workers evaluated together into one evaluation. Sums run
// over the chunks in their order, so they do not depend on who evaluated which.
//
// Pure and not thread-safe. Bounded: at most kMaxOpen evaluations are incomplete at a time.
class EvaluationMerge {
 public:
  static constexpr size_t kMaxOpen = 16;

  // The chunks that one worker evaluates: c % parts == part; none when parts is 0.
  struct Share {
    uint32_t part = 0;
    uint32_t parts = 0;
  };

  struct TestSet {
    uint64_t samples = 0;
    uint64_t chunk_size = 1;        // > 0
    uint64_t terms_per_sample = 1;  // of the loss, as in ModelLayout
  };

  // `last_complete`: step of the newest evaluation that is complete already.
  // REQUIRES: terms of all samples fit 64 bits.
  EvaluationMerge(const TestSet& test_set, uint64_t steps_total,
                  std::optional<uint64_t> last_complete = std::nullopt);

  // Adds what a worker reported; returns the evaluation when it is complete now. What is already
  // known changes nothing.
  // Errors: InvalidArgument    the report does not fit: step, chunks or samples
  //         ResourceExhausted  too many evaluations are incomplete
  absl::StatusOr<std::optional<v1::Evaluation>> Add(const v1::EvaluationReport& report,
                                                    const Share& share);

  // Step of the newest complete evaluation.
  std::optional<uint64_t> last_complete() const { return last_complete_; }
  size_t num_open() const { return open_.size(); }

 private:
  using Chunks = std::map<uint32_t, v1::EvaluationChunk>;

  absl::Status Check(const v1::EvaluationReport& report, const Share& share) const;
  v1::Evaluation Sum(uint64_t step, const Chunks& chunks) const;

  const TestSet test_set_;
  const uint64_t steps_total_;
  const uint64_t num_chunks_;
  std::optional<uint64_t> last_complete_;
  std::map<uint64_t, Chunks> open_;  // by step
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_EVALUATION_MERGE_H_
