#ifndef SANGAM_TESTS_COMMON_DATA_DATA_FILES_H_
#define SANGAM_TESTS_COMMON_DATA_DATA_FILES_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/data/dataset.h"
#include "common/data/input_file.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {

// Writes `content` to a file of this name in a folder of the running test and gives it back as a
// reader wants it.
inline NamedFile DataFile(const std::string& name, const std::string& content) {
  static const std::string folder = FreshFolder("data_files");
  NamedFile file{absl::StrCat(folder, "/", name), name};
  WriteFile(file.path, content);
  return file;
}

// An array's file: format version, the header's dictionary, the items' bytes.
inline std::string NpyBytes(const std::string& dictionary, const std::string& items,
                            int version = 1) {
  std::string header = dictionary + "\n";
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int b = 0; b < (version == 1 ? 2 : 4); ++b) {
    bytes += static_cast<char>(header.size() >> 8 * b & 0xff);
  }
  return bytes + header + items;
}

inline std::string NpyBytes(const std::string& dtype, const std::string& shape,
                            const std::string& items) {
  return NpyBytes(
      absl::StrCat("{'descr': '", dtype, "', 'fortran_order': False, 'shape': ", shape, ", }"),
      items);
}

// The bytes of numbers of one type, in this machine's order.
template <typename Number>
std::string Items(const std::vector<Number>& numbers) {
  std::string bytes(numbers.size() * sizeof(Number), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

inline float AsFloat(uint32_t word) {
  float number = 0;
  std::memcpy(&number, &word, sizeof(number));
  return number;
}

inline std::vector<float> InputsOf(const Dataset& data, uint64_t sample) {
  std::vector<float> row(data.sample_elements());
  if (!data.Read(sample, row.data(), nullptr).ok()) row.clear();
  return row;
}

inline std::vector<uint32_t> LabelsOf(const Dataset& data, uint64_t sample) {
  std::vector<uint32_t> labels(data.labels_per_sample());
  if (!data.Read(sample, nullptr, labels.data()).ok()) labels.clear();
  return labels;
}

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_COMMON_DATA_DATA_FILES_H_
