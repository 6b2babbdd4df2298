#include "tests/testing/idx_files.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sangam::testing {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;

// A small generator that is the same everywhere (Steele, Lea & Flood 2014, SplitMix64).
uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void AppendBigEndian(uint32_t value, std::string* bytes) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes->push_back(static_cast<char>(value >> shift));
}

}  // namespace

ImageSet MakeImages(uint64_t seed, int samples, int rows, int columns, int classes) {
  ImageSet set;
  set.rows = rows;
  set.columns = columns;
  const int pixels = rows * columns;
  uint64_t state = seed;
  for (int s = 0; s < samples; ++s) {
    const int label = static_cast<int>(NextRandom(&state) % static_cast<uint64_t>(classes));
    std::vector<uint8_t> image;
    for (int p = 0; p < pixels; ++p) {
      const int noise = static_cast<int>(NextRandom(&state) % 96);
      const bool bright = p * classes / pixels == label;
      image.push_back(static_cast<uint8_t>(noise + (bright ? 128 : 0)));
    }
    set.images.push_back(std::move(image));
    set.labels.push_back(static_cast<uint8_t>(label));
  }
  return set;
}

std::string IdxImages(const ImageSet& set) {
  std::string bytes;
  AppendBigEndian(kImagesMagic, &bytes);
  AppendBigEndian(static_cast<uint32_t>(set.images.size()), &bytes);
  AppendBigEndian(static_cast<uint32_t>(set.rows), &bytes);
  AppendBigEndian(static_cast<uint32_t>(set.columns), &bytes);
  for (const std::vector<uint8_t>& image : set.images) bytes.append(image.begin(), image.end());
  return bytes;
}

std::string IdxLabels(const ImageSet& set) {
  std::string bytes;
  AppendBigEndian(kLabelsMagic, &bytes);
  AppendBigEndian(static_cast<uint32_t>(set.labels.size()), &bytes);
  bytes.append(set.labels.begin(), set.labels.end());
  return bytes;
}

}  // namespace sangam::testing
