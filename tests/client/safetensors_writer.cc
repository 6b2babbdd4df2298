// Writes the tensors that safetensors_reader_test.py expects: safetensors_writer FILE.

#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/safetensors.h"

namespace {

std::string Bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: safetensors_writer FILE\n", stderr);
    return 2;
  }
  std::vector<float> counted(6 * 35);
  for (size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<float>(i) * 0.5f - 3.0f;
  const std::string weight = Bytes(counted);
  const std::string special =
      Bytes({std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
             std::numeric_limits<float>::quiet_NaN(), -0.0f,
             std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()});
  const std::string scalar = Bytes({2.5f});
  const absl::Status status = sangam::WriteSafetensors({{"hidden.0.weight", {6, 35}, weight},
                                                        {"hidden.0.bias", {6}, special},
                                                        {"empty", {3, 0}, ""},
                                                        {"Zscalar", {}, scalar}},
                                                       argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
