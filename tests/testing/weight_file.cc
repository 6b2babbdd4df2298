#include "tests/testing/weight_file.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sangam::testing {

std::map<std::string, std::vector<float>> ParseSafetensors(const std::string& bytes) {
  std::map<std::string, std::vector<float>> tensors;
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, header_size));
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    EXPECT_EQ(tensor["dtype"], "F32");
    const uint64_t begin = tensor["data_offsets"][0];
    const uint64_t end = tensor["data_offsets"][1];
    std::vector<float> values((end - begin) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + 8 + header_size + begin, end - begin);
    tensors[name] = values;
  }
  return tensors;
}

}  // namespace sangam::testing
