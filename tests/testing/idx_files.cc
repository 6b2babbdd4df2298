#include "tests/testing/idx_files.h"

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sangam::testing {
namespace {

void AppendBigEndian(uint32_t value, std::string* bytes) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes->push_back(static_cast<char>(value >> shift));
}

}  // namespace

ImageSet MakeImages(uint64_t seed, uint32_t count, uint32_t rows, uint32_t cols, uint32_t classes) {
  ImageSet set;
  set.rows = rows;
  set.cols = cols;
  const uint32_t pixels = rows * cols;
  std::mt19937_64 pattern_random(0);
  std::vector<std::vector<uint8_t>> patterns(classes, std::vector<uint8_t>(pixels));
  for (auto& pattern : patterns) {
    for (uint8_t& pixel : pattern) pixel = pattern_random() % 128;
  }
  std::mt19937_64 random(seed);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t label = random() % classes;
    std::vector<uint8_t> image(pixels);
    for (uint32_t p = 0; p < pixels; ++p) {
      image[p] = static_cast<uint8_t>(patterns[label][p] + random() % 128);
    }
    set.images.push_back(std::move(image));
    set.labels.push_back(static_cast<uint8_t>(label));
  }
  return set;
}

std::string IdxImages(const ImageSet& set) {
  std::string bytes;
  AppendBigEndian(0x00000803, &bytes);
  AppendBigEndian(static_cast<uint32_t>(set.images.size()), &bytes);
  AppendBigEndian(set.rows, &bytes);
  AppendBigEndian(set.cols, &bytes);
  for (const auto& image : set.images) bytes.append(image.begin(), image.end());
  return bytes;
}

std::string IdxLabels(const ImageSet& set) {
  std::string bytes;
  AppendBigEndian(0x00000801, &bytes);
  AppendBigEndian(static_cast<uint32_t>(set.labels.size()), &bytes);
  bytes.append(set.labels.begin(), set.labels.end());
  return bytes;
}

}  // namespace sangam::testing
