#include "tests/testing/feed_job.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/data/batch_reader.h"
#include "common/data/job_data.h"
#include "common/plan/batch_cut.h"
#include "proto/plan.pb.h"
#include "server/runtime/served_data.h"
#include "tests/testing/counting_data.h"

namespace sangam::testing {

std::shared_ptr<const v1::Assignment> MakeFeedAssignment(const FeedJob& job) {
  auto assignment = std::make_shared<v1::Assignment>();
  assignment->set_phase(v1::Assignment::PREPARE);
  assignment->mutable_spec()->set_seed(21);
  assignment->mutable_spec()->mutable_batch()->set_size(job.batch);
  v1::Plan& plan = *assignment->mutable_plan();
  plan.set_job(job.job);
  plan.set_generation(job.generation);
  plan.set_schema_hash(0x5eed);
  plan.set_micro_batches(job.micro_batches);
  plan.set_shares(2);
  plan.set_ranks(job.ranks);
  for (uint32_t b = 0; b < 3; ++b) plan.mutable_layout()->add_block()->set_segment(-1);
  for (uint32_t r = 0; r < job.ranks; ++r) {
    v1::StagePlan& stage = *plan.add_stage();
    stage.set_first_block(r);
    stage.set_block_count(r + 1 == job.ranks ? 3 - r : 1);
    v1::WorkerPlan& worker = *plan.add_worker();
    worker.set_name(absl::StrCat("w", r));
    worker.set_incarnation(1);
    worker.set_rank(r);
    worker.mutable_shares()->set_end(2);
  }
  return assignment;
}

std::shared_ptr<const JobData> MakeFeedData(const FeedJob& job) {
  auto data = std::make_shared<JobData>();
  data->train = std::make_unique<CountingDataset>(job.train_samples);
  data->test = std::make_unique<CountingDataset>(job.test_samples);
  return data;
}

BatchReader MakeFeedReader(const FeedJob& job, const JobData* data) {
  BatchCut cut;
  cut.batch_size = job.batch;
  cut.micro_batches = job.micro_batches;
  cut.shares = 2;
  cut.training_samples = job.train_samples;
  return BatchReader(MakeFeedAssignment(job)->spec(), cut, data);
}

std::shared_ptr<const ServedJob> MakeServedJob(const FeedJob& job,
                                               std::shared_ptr<const JobData> data) {
  const BatchReader reader = MakeFeedReader(job, data.get());
  return std::make_shared<const ServedJob>(
      ServedJob{MakeFeedAssignment(job), std::move(data), reader});
}

}  // namespace sangam::testing
