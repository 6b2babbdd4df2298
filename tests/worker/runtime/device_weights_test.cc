#include "worker/runtime/device_weights.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/testing/lazy_backend.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

class DeviceWeightsTest : public ::testing::Test {
 protected:
  // What the backend's next operation reads at `data`.
  std::vector<float> Read(Backend* backend, const float* data) {
    const auto copy = backend->Allocate(3).value();
    EXPECT_TRUE(backend->Copy({data, 1, 3}, {copy->data(), 1, 3}).ok());
    std::vector<float> values(3);
    EXPECT_TRUE(backend->Download({copy->data(), 1, 3}, values.data()).ok());
    EXPECT_TRUE(backend->Synchronize().ok());
    return values;
  }

  testing::LazyDevice device_;
  const std::unique_ptr<Backend> first_ = testing::CreateLazyBackend(&device_);
  const std::unique_ptr<Backend> second_ = testing::CreateLazyBackend(&device_);
  const std::unique_ptr<BackendMemory> memory_ = first_->Allocate(3).value();
  DeviceWeights weights_{{{5, {memory_->data(), 1, 3}}}};
};

TEST_F(DeviceWeightsTest, TheFirstLaneUploadsForAll) {
  const std::vector<float> host = {1, 2, 3};
  const auto first = weights_.Bring(5, 7, host.data(), first_.get());
  const auto second = weights_.Bring(5, 7, host.data(), second_.get());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  // The second one waits for what the first one has begun.
  EXPECT_EQ(Read(second_.get(), *second), host);
  EXPECT_EQ(device_.done(), 3);  // one upload, a copy and its download
  EXPECT_EQ(Read(first_.get(), *first), host);
  EXPECT_EQ(device_.done(), 5);
}

TEST_F(DeviceWeightsTest, TheNextStepReplacesThem) {
  const std::vector<float> host = {1, 2, 3};
  ASSERT_TRUE(weights_.Bring(5, 7, host.data(), first_.get()).ok());
  ASSERT_TRUE(first_->Synchronize().ok());
  const std::vector<float> next = {4, 5, 6};
  const auto place = weights_.Bring(5, 8, next.data(), second_.get());
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(Read(second_.get(), *place), next);
  EXPECT_EQ(weights_.Bring(5, 7, host.data(), first_.get()).status().code(),
            absl::StatusCode::kInternal);
}

TEST_F(DeviceWeightsTest, SegmentsWithoutAPlaceAreRefused) {
  EXPECT_EQ(weights_.Bring(4, 0, nullptr, first_.get()).status().code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace sangam
