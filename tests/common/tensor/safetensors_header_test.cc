#include "common/tensor/safetensors_header.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

TEST(SafetensorsHeaderTest, TensorsFollowOneAnother) {
  const auto header = MakeSafetensorsHeader({{"a", {2, 3}}, {"b.c", {}}, {"d", {0}}, {"e", {1}}});
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->size() % 8, 0u);
  EXPECT_EQ(static_cast<uint8_t>((*header)[0]), (header->size() - 8) % 256);
  const auto json = nlohmann::json::parse(header->substr(8));
  EXPECT_EQ(json["a"]["data_offsets"], nlohmann::json({0, 24}));
  EXPECT_EQ(json["b.c"]["data_offsets"], nlohmann::json({24, 28}));
  EXPECT_EQ(json["d"]["data_offsets"], nlohmann::json({28, 28}));
  EXPECT_EQ(json["e"]["data_offsets"], nlohmann::json({28, 32}));
}

TEST(SafetensorsHeaderTest, RefusesWhatNoReaderCouldTell) {
  const std::vector<std::vector<TensorEntry>> all = {
      {{"", {1}}},
      {{"__metadata__", {1}}},
      {{"b", {1}}, {"a", {1}}},
      {{"a", {1}}, {"a", {1}}},
      {{"a b", {1}}},
      {{"a", {uint64_t{1} << 40, uint64_t{1} << 40}}}};
  for (const std::vector<TensorEntry>& tensors : all) {
    EXPECT_EQ(MakeSafetensorsHeader(tensors).status().code(), absl::StatusCode::kInvalidArgument)
        << tensors.back().name;
  }
}

}  // namespace
}  // namespace sangam
