#include "common/data/augmentation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "common/base/check.h"
#include "common/base/philox.h"

namespace sangam {
namespace {

// A number in [0, size); as good as even, as size is far below 2^32.
int64_t Below(uint64_t size, uint32_t bits) { return static_cast<int64_t>(bits * size >> 32); }

}  // namespace

Augmentation::Augmentation(Options options) : options_(std::move(options)) {
  SANGAM_CHECK(options_.zero.size() == options_.channels);
}

void Augmentation::Apply(uint64_t epoch, uint64_t sample, const float* image,
                         float* changed) const {
  const RandomStream stream(options_.seed, RandomPurpose::kAugmentation, epoch, sample);
  const std::array<uint32_t, 4> bits = stream.Block(0);
  const auto padding = static_cast<int64_t>(options_.crop_padding);
  const int64_t down = Below(2 * options_.crop_padding + uint64_t{1}, bits[0]) - padding;
  const int64_t right = Below(2 * options_.crop_padding + uint64_t{1}, bits[1]) - padding;
  const bool flip = options_.horizontal_flip && (bits[2] >> 31) != 0;
  const auto height = static_cast<int64_t>(options_.height);
  const auto width = static_cast<int64_t>(options_.width);
  const auto channels = static_cast<int64_t>(options_.channels);
  for (int64_t y = 0; y < height; ++y) {
    const int64_t from_y = y + down;
    for (int64_t x = 0; x < width; ++x, changed += channels) {
      const int64_t from_x = (flip ? width - 1 - x : x) + right;
      const bool outside = from_y < 0 || from_y >= height || from_x < 0 || from_x >= width;
      std::copy_n(outside ? options_.zero.data() : image + (from_y * width + from_x) * channels,
                  channels, changed);
    }
  }
}

}  // namespace sangam
