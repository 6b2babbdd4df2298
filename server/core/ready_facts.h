#ifndef SANGAM_SERVER_CORE_READY_FACTS_H_
#define SANGAM_SERVER_CORE_READY_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {

// What one reader said of the data that it opened.
struct ReportedFacts {
  std::string reader;  // "worker w-1"
  v1::ReadyReport report;
};

// What all of them agree on.
struct DataFacts {
  uint64_t train_samples = 0;
  uint64_t test_samples = 0;
  uint64_t classes = 0;
};

// Errors: InvalidArgument  two readers see different data (both are named), or the data does not
//                          fit the job: no samples, no test set for a job that evaluates, more
//                          terms of the loss than can be counted, more classes than the last
//                          dimension of the model's output
// REQUIRES: `reported` is not empty; `spec` has been checked, `layout` is its model's.
absl::StatusOr<DataFacts> AgreeOnFacts(const std::vector<ReportedFacts>& reported,
                                       const v1::JobSpec& spec, const v1::ModelLayout& layout);

// What a job's data and specification say together.
struct JobLength {
  uint64_t steps_total = 0;
  uint64_t steps_per_epoch = 0;
  uint64_t train_samples = 0;
  uint64_t test_samples = 0;  // 0 when the job never evaluates
};

// How long the job is.
// Errors: InvalidArgument  more than 2^48
// REQUIRES: facts.train_samples > 0.
absl::StatusOr<JobLength> LengthOf(const v1::JobSpec& spec, const DataFacts& facts);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_READY_FACTS_H_
