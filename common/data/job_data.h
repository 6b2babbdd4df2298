#ifndef SANGAM_COMMON_DATA_JOB_DATA_H_
#define SANGAM_COMMON_DATA_JOB_DATA_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/augmentation.h"
#include "common/data/data_root.h"
#include "common/data/dataset.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {

// The data sets of a job.
struct JobData {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;  // nullptr when the job names none
  // What happens to training samples when they are read.
  std::optional<Augmentation> augmentation;
  // Lines of a CSV file left out because of missing values, as the job wants it.
  uint64_t skipped_lines = 0;

  uint64_t test_samples() const { return test == nullptr ? 0 : test->num_samples(); }
  // 1 + the largest label of both; 0 when labels are numbers.
  uint32_t classes() const;
  uint64_t memory_bytes() const;
};

struct JobDataOptions {
  const DataRoot* root = nullptr;  // borrowed; nullptr: only for data that is made up
  uint64_t max_memory_bytes = std::numeric_limits<uint64_t>::max();
  // When it becomes true, opening ends soon with Cancelled. May be nullptr.
  const std::atomic<bool>* cancelled = nullptr;
};

// Opens what `spec` names below the data root and checks that it fits the model: the samples' shape
// has as many elements as the model's input, there are as many labels as the loss has terms, of its
// kind (classes or numbers), every class has an output, targets of binary_cross_entropy lie within
// [0, 1], and every token has a row in the embedding that it enters. Errors: InvalidArgument  a
// path outside of the root, data that does not fit; names field and file
//         others           as FindFiles and the readers of the formats
absl::StatusOr<JobData> OpenJobData(const v1::JobSpec& spec, const v1::ModelLayout& layout,
                                    const JobDataOptions& options);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_JOB_DATA_H_
