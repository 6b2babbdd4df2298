#ifndef SANGAM_TESTS_TESTING_REFERENCE_TRAINER_H_
#define SANGAM_TESTS_TESTING_REFERENCE_TRAINER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "tests/testing/idx_files.h"

namespace sangam::testing {

// What a job should give.
struct ReferenceResult {
  std::map<std::string, std::vector<double>> parameters;  // by ParameterLayout.name
  std::vector<double> step_losses;                        // mean over the step's samples
  uint64_t correct = 0;                                   // of the test set, with the last weights
  double test_loss = 0;                                   // mean
};

// Trains the whole job with plain loops in double precision: one sample after the other, no
// micro-batches, no shares, no pages. What it shares with the product is only what a job's result
// is defined by: the first weights, the order of the samples and the dropped elements, all by
// address. REQUIRES: CheckJobSpec(spec) is empty; the data fits the model.
ReferenceResult TrainReference(const v1::JobSpec& spec, const ImageSet& train,
                               const ImageSet& test);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_REFERENCE_TRAINER_H_
