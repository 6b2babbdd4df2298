#include "common/data/batch_reader.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/augmentation.h"
#include "common/data/batch_id.h"
#include "common/data/job_data.h"
#include "common/data/sampler.h"
#include "common/plan/batch_cut.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/testing/counting_data.h"

namespace sangam {
namespace {

using testing::CountingDataset;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 23 samples in batches of 10, so the third step of an epoch has 3; 4 micro-batches of a step.
class BatchReaderTest : public ::testing::Test {
 protected:
  BatchReaderTest() {
    spec_.set_seed(9);
    cut_.batch_size = 10;
    cut_.micro_batches = 4;
    cut_.shares = 2;
    cut_.training_samples = 23;
    data_.train = std::make_unique<CountingDataset>(23);
    data_.test = std::make_unique<CountingDataset>(8);
  }

  BatchReader Reader() const { return BatchReader(spec_, cut_, &data_); }
  // The numbers of the samples of a batch.
  std::vector<int> Samples(const BatchId& id) const {
    const absl::StatusOr<BatchRows> rows = Reader().Find(id);
    EXPECT_TRUE(rows.ok()) << rows.status();
    std::vector<int> samples;
    for (uint64_t r = 0; rows.ok() && r < rows->size(); ++r) {
      float inputs[2] = {};
      uint32_t labels[2] = {};
      EXPECT_TRUE(rows->Read(r, inputs, labels).ok());
      EXPECT_EQ(labels[0], static_cast<uint32_t>(inputs[0]) % 7);
      samples.push_back(static_cast<int>(inputs[0]));
    }
    return samples;
  }
  void ExpectNone(const BatchId& id, const std::string& words) const {
    const absl::StatusOr<BatchRows> rows = Reader().Find(id);
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kOutOfRange) << rows.status();
    EXPECT_THAT(std::string(rows.status().message()), HasSubstr(words));
  }

  v1::JobSpec spec_;
  BatchCut cut_;
  JobData data_;
};

TEST_F(BatchReaderTest, GivesTheFilesOrderWhenNotShuffled) {
  spec_.mutable_data()->set_no_shuffle(true);
  EXPECT_THAT(Samples({false, 0, 0}), ElementsAre(0, 1));
  EXPECT_THAT(Samples({false, 0, 1}), ElementsAre(2, 3, 4));
  EXPECT_THAT(Samples({false, 0, 3}), ElementsAre(7, 8, 9));
  EXPECT_THAT(Samples({false, 1, 0}), ElementsAre(10, 11));
  // The epoch's last batch has 3 samples for 4 micro-batches.
  EXPECT_THAT(Samples({false, 2, 0}), ElementsAre());
  EXPECT_THAT(Samples({false, 2, 1}), ElementsAre(20));
  EXPECT_THAT(Samples({false, 2, 3}), ElementsAre(22));
  // The next epoch.
  EXPECT_THAT(Samples({false, 3, 0}), ElementsAre(0, 1));
}

// A change of these numbers changes every trained weight.
TEST_F(BatchReaderTest, ShuffledOrderIsAsItAlwaysWas) {
  EXPECT_THAT(Samples({false, 0, 0}), ElementsAre(12, 7));
  EXPECT_THAT(Samples({false, 3, 1}), ElementsAre(17, 11, 4));
}

TEST_F(BatchReaderTest, AnEpochHasEverySampleOnceInAnOrderOfItsOwn) {
  std::vector<std::vector<int>> epochs;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<int>& order = epochs.emplace_back();
    for (uint64_t step = 3 * epoch; step < 3 * epoch + 3; ++step) {
      for (uint32_t m = 0; m < 4; ++m) {
        for (const int sample : Samples({false, step, m})) order.push_back(sample);
      }
    }
    EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), 23);
    const Sampler sampler = Sampler::Shuffled(9, epoch, 23);
    ASSERT_EQ(order.size(), 23);
    for (uint64_t p = 0; p < 23; ++p) EXPECT_EQ(order[p], static_cast<int>(sampler.SampleAt(p)));
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST_F(BatchReaderTest, ChunksOfTheTestSetComeInOrder) {
  EXPECT_THAT(Samples({true, 5, 0}), ElementsAre(0, 1, 2));
  EXPECT_THAT(Samples({true, 0, 2}), ElementsAre(6, 7));
  ExpectNone({true, 5, 3}, "chunk 3 of the test set: expected less than 3");
}

// Eleven workers with a share each for an epoch of three samples: most have nothing to do in a
// step, and together they see every sample once.
TEST_F(BatchReaderTest, MoreSharesThanSamplesGiveEachSampleOnce) {
  data_.train = std::make_unique<CountingDataset>(3);
  cut_.batch_size = 22;
  cut_.micro_batches = 11;
  cut_.shares = 11;
  cut_.training_samples = 3;
  EXPECT_EQ(cut_.StepsPerEpoch(), 1);
  std::multiset<int> samples;
  int idle = 0;
  for (uint32_t share = 0; share < 11; ++share) {
    const IndexRange own = cut_.ShareMicroBatches(share);
    ASSERT_EQ(own.size(), 1);
    const std::vector<int> some = Samples({false, 4, static_cast<uint32_t>(own.begin)});
    idle += some.empty() ? 1 : 0;
    samples.insert(some.begin(), some.end());
  }
  EXPECT_EQ(idle, 8);
  EXPECT_THAT(samples, ElementsAre(0, 1, 2));
}

// As an image of one row of two pixels.
TEST_F(BatchReaderTest, ChangesTrainingSamplesByEpochAndSample) {
  Augmentation::Options options;
  options.seed = 9;
  options.width = 2;
  options.crop_padding = 1;
  options.zero = {-1};
  data_.augmentation.emplace(options);
  spec_.mutable_data()->set_no_shuffle(true);
  for (const uint64_t epoch : {0, 1, 5}) {
    const absl::StatusOr<BatchRows> rows = Reader().Find({false, 3 * epoch + 1, 3});
    ASSERT_TRUE(rows.ok());
    for (uint64_t r = 0; r < rows->size(); ++r) {
      const uint64_t sample = 17 + r;
      const float image[2] = {static_cast<float>(sample), static_cast<float>(sample) + 0.5f};
      std::vector<float> expected(2);
      data_.augmentation->Apply(epoch, sample, image, expected.data());
      std::vector<float> found(2);
      uint32_t labels[2] = {};
      ASSERT_TRUE(rows->Read(r, found.data(), labels).ok());
      EXPECT_EQ(found, expected);
      EXPECT_EQ(labels[0], sample % 7);
      EXPECT_TRUE(rows->Read(r, nullptr, labels).ok());
    }
  }
  // Not the test set.
  EXPECT_THAT(Samples({true, 0, 2}), ElementsAre(6, 7));
}

TEST_F(BatchReaderTest, KnowsWhatDoesNotExist) {
  ExpectNone({false, 7, 4}, "micro-batch 4 of step 7: expected less than 4");
  EXPECT_THAT(Samples({false, UINT64_MAX, 0}).size(), ::testing::Le(3));
  data_.test.reset();
  ExpectNone({true, 0, 0}, "chunk 0 of the test set: expected less than 0");
}

TEST_F(BatchReaderTest, KnowsTheShapeOfItsBatches) {
  EXPECT_EQ(Reader().max_rows(), 3);
  EXPECT_EQ(Reader().input_elements(), 2);
  EXPECT_EQ(Reader().labels_per_sample(), 2);
}

}  // namespace
}  // namespace sangam
