#ifndef SANGAM_TESTS_TESTING_WEIGHT_FILE_H_
#define SANGAM_TESTS_TESTING_WEIGHT_FILE_H_

#include <map>
#include <string>
#include <vector>

namespace sangam::testing {

// The tensors of a safetensors file by name: a second reader of the format, written from its
// description. Anything but binary32 is a failed test.
std::map<std::string, std::vector<float>> ParseSafetensors(const std::string& bytes);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_WEIGHT_FILE_H_
