#ifndef SANGAM_TESTS_TESTING_FEED_JOB_H_
#define SANGAM_TESTS_TESTING_FEED_JOB_H_

#include <cstdint>
#include <memory>

#include "common/data/batch_reader.h"
#include "common/data/job_data.h"
#include "proto/plan.pb.h"
#include "server/runtime/served_data.h"

namespace sangam::testing {

// A job of two blocks without parameters over samples of CountingDataset: two floats and two labels
// each.
struct FeedJob {
  uint64_t job = 5;
  uint64_t generation = 2;
  uint32_t ranks = 1;  // one pipeline of workers "w0", "w1", ..., of incarnation 1; at most 3
  uint64_t batch = 10;
  uint32_t micro_batches = 4;
  uint64_t train_samples = 103;  // the last of eleven batches has 3
  uint64_t test_samples = 7;
};

std::shared_ptr<const v1::Assignment> MakeFeedAssignment(const FeedJob& job);
std::shared_ptr<const JobData> MakeFeedData(const FeedJob& job);
// How `data` is read; it must outlive the reader.
BatchReader MakeFeedReader(const FeedJob& job, const JobData* data);
std::shared_ptr<const ServedJob> MakeServedJob(const FeedJob& job,
                                               std::shared_ptr<const JobData> data);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_FEED_JOB_H_
