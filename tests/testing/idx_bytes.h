#ifndef SANGAM_TESTS_TESTING_IDX_BYTES_H_
#define SANGAM_TESTS_TESTING_IDX_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sangam::testing {

// The bytes of any IDX file, sound or not: magic number, sizes, payload.
std::string IdxBytes(uint32_t magic, const std::vector<uint32_t>& sizes,
                     const std::string& payload);

// A gzip member with `content`.
std::string Gzip(const std::string& content);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_IDX_BYTES_H_
