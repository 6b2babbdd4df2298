#ifndef SANGAM_TESTS_TESTING_IDX_FILES_H_
#define SANGAM_TESTS_TESTING_IDX_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sangam::testing {

// Images of one byte a pixel, with labels.
struct ImageSet {
  int rows = 0;
  int columns = 0;
  std::vector<std::vector<uint8_t>> images;  // rows * columns pixels each, row after row
  std::vector<uint8_t> labels;
};

// Made-up images whose labels can be learnt: class c of `classes` brightens a part of the image of
// its own; the rest is noise. The same for the same arguments.
ImageSet MakeImages(uint64_t seed, int samples, int rows, int columns, int classes);

// The bytes of the IDX files of a set.
std::string IdxImages(const ImageSet& set);
std::string IdxLabels(const ImageSet& set);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_IDX_FILES_H_
