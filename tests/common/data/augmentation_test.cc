#include "common/data/augmentation.h"

#include <cstdint>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::ElementsAreArray;

// An image of 2 x 3 pixels with two channels: 1 to 6 and 10 to 60.
const std::vector<float> kImage = {1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60};

class AugmentationTest : public ::testing::Test {
 protected:
  AugmentationTest() {
    options_.seed = 3;
    options_.height = 2;
    options_.width = 3;
    options_.channels = 2;
    options_.zero = {-1, -10};
  }
  std::vector<float> Change(uint64_t epoch, uint64_t sample) const {
    std::vector<float> changed(kImage.size());
    Augmentation(options_).Apply(epoch, sample, kImage.data(), changed.data());
    return changed;
  }

  Augmentation::Options options_;
};

TEST_F(AugmentationTest, WithoutAnythingImagesStayAsTheyAre) { EXPECT_EQ(Change(0, 0), kImage); }

TEST_F(AugmentationTest, FlipsInHalfOfTheCases) {
  options_.horizontal_flip = true;
  const std::vector<float> mirror = {3, 30, 2, 20, 1, 10, 6, 60, 5, 50, 4, 40};
  int flipped = 0;
  for (uint64_t s = 0; s < 1000; ++s) {
    const std::vector<float> changed = Change(0, s);
    if (changed != kImage) {
      ++flipped;
      EXPECT_EQ(changed, mirror);
    }
  }
  EXPECT_NEAR(flipped, 500, 60);
}

TEST_F(AugmentationTest, CropsAtEveryPlaceWithZeroPixelsAround) {
  options_.crop_padding = 1;
  std::set<std::vector<float>> seen;
  for (uint64_t s = 0; s < 500; ++s) seen.insert(Change(0, s));
  EXPECT_EQ(seen.size(), 9);
  // Up and left: the image's last row and column come from outside.
  EXPECT_EQ(seen.count({-1, -10, -1, -10, -1, -10, -1, -10, 1, 10, 2, 20}), 1);
  EXPECT_EQ(seen.count({5, 50, 6, 60, -1, -10, -1, -10, -1, -10, -1, -10}), 1);
  EXPECT_EQ(seen.count(kImage), 1);
}

TEST_F(AugmentationTest, DependsOnSeedEpochAndSampleAlone) {
  options_.crop_padding = 100;
  options_.horizontal_flip = true;
  std::set<std::vector<float>> seen;
  EXPECT_EQ(Change(1, 7), Change(1, 7));
  const auto all = [this](uint64_t epoch) {
    std::vector<std::vector<float>> images;
    options_.crop_padding = 2;
    for (uint64_t s = 0; s < 50; ++s) images.push_back(Change(epoch, s));
    return images;
  };
  const auto first = all(0);
  EXPECT_EQ(first, all(0));
  EXPECT_NE(first, all(1));
  options_.seed = 4;
  EXPECT_NE(first, all(0));
}

}  // namespace
}  // namespace sangam
