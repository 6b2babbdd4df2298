#ifndef SANGAM_TESTS_TESTING_IDX_FILES_H_
#define SANGAM_TESTS_TESTING_IDX_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sangam::testing {

// A small image data set, the same for the same seed.
struct ImageSet {
  uint32_t rows = 0;
  uint32_t cols = 0;
  std::vector<std::vector<uint8_t>> images;
  std::vector<uint8_t> labels;
};

// `count` images of `classes` classes that a small network can tell apart: each class has its own
// pattern, and every image has noise of its own. `seed` chooses the noise; the patterns are the
// same for all seeds, so that a training and a test set belong together.
ImageSet MakeImages(uint64_t seed, uint32_t count, uint32_t rows, uint32_t cols, uint32_t classes);

// The set's two files in the IDX format, not compressed.
std::string IdxImages(const ImageSet& set);
std::string IdxLabels(const ImageSet& set);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_IDX_FILES_H_
