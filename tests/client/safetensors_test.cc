#include "client/safetensors.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

using ::testing::HasSubstr;

std::string Floats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string Error(const std::vector<TensorView>& tensors) {
  const auto header = SafetensorsHeader(tensors);
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(header.status().message());
}

TEST(SafetensorsTest, HeaderIsExactlyAsTheFormatSays) {
  const std::string a = Floats({1, 2, 3, 4, 5, 6});
  const std::string b = Floats({7});
  const auto header = SafetensorsHeader({{"a.weight", {2, 3}, a}, {"b", {1}, b}});
  ASSERT_TRUE(header.ok()) << header.status();
  const std::string json =
      "{\"__metadata__\":{\"format\":\"sangam\"},"
      "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}";
  const size_t padded = (json.size() + 7) / 8 * 8;
  std::string expected(1, static_cast<char>(padded));
  expected += std::string(7, '\0') + json + std::string(padded - json.size(), ' ');
  EXPECT_EQ(*header, expected);
}

TEST(SafetensorsTest, DataBeginsAtAMultipleOfEight) {
  for (size_t length = 1; length < 20; ++length) {
    const auto header = SafetensorsHeader({{std::string(length, 'x'), {0}, ""}});
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header->size() % 8, 0u);
  }
}

TEST(SafetensorsTest, TakesScalarsEmptyTensorsAndNone) {
  EXPECT_TRUE(SafetensorsHeader({}).ok());
  const std::string one = Floats({1});
  const auto header = SafetensorsHeader({{"empty", {3, 0}, ""}, {"scalar", {}, one}});
  ASSERT_TRUE(header.ok());
  const auto json = nlohmann::json::parse(header->substr(8));
  EXPECT_EQ(json["scalar"]["shape"], nlohmann::json::array());
  EXPECT_EQ(json["scalar"]["data_offsets"], nlohmann::json({0, 4}));
}

TEST(SafetensorsTest, NamesAreChecked) {
  EXPECT_THAT(Error({{"", {0}, ""}}), HasSubstr("printable ASCII"));
  EXPECT_THAT(Error({{"a b", {0}, ""}}), HasSubstr("printable ASCII"));
  EXPECT_THAT(Error({{"\xff", {0}, ""}}), HasSubstr("printable ASCII"));
  EXPECT_THAT(Error({{"__metadata__", {0}, ""}}), HasSubstr("reserves"));
  EXPECT_THAT(Error({{"a", {0}, ""}, {"a", {0}, ""}}), HasSubstr("two tensors"));
  EXPECT_THAT(Error({{"b", {0}, ""}, {"a", {0}, ""}}), HasSubstr("not in byte order"));
}

TEST(SafetensorsTest, LengthsAreChecked) {
  const std::string one = Floats({1});
  EXPECT_THAT(Error({{"a", {2}, one}}), HasSubstr("found 4 bytes, expected 8 for the shape [2]"));
  EXPECT_THAT(Error({{"a", {0}, one}}), HasSubstr("expected 0"));
  const uint64_t large = uint64_t{1} << 40;
  EXPECT_THAT(Error({{"a", {large, large}, one}}), HasSubstr("more elements than can be counted"));
  EXPECT_THAT(Error({{"a", {uint64_t{1} << 62, 4}, ""}}), HasSubstr("more elements"));
}

TEST(SafetensorsTest, EqualTensorsMakeEqualFilesInAnyOrder) {
  const std::string a = Floats({1, 2});
  const std::string b = Floats({3});
  const std::string path = absl::StrCat(::testing::TempDir(), "/safetensors_test");
  ASSERT_TRUE(WriteSafetensors({{"b", {1}, b}, {"a", {2}, a}}, path + ".1").ok());
  ASSERT_TRUE(WriteSafetensors({{"a", {2}, a}, {"b", {1}, b}}, path + ".2").ok());
  const auto one = ReadFile(path + ".1", 10'000);
  const auto two = ReadFile(path + ".2", 10'000);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(*one, *two);
  EXPECT_EQ(one->substr(one->size() - 12), a + b);
}

TEST(SafetensorsTest, AFaultyTensorWritesNoFile) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/safetensors_test.none");
  EXPECT_FALSE(WriteSafetensors({{"a", {2}, ""}}, path).ok());
  EXPECT_FALSE(ReadFile(path, 10).ok());
  const absl::Status missing = WriteSafetensors({}, "/no/such/directory/x");
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/no/such/directory/x"));
}

}  // namespace
}  // namespace sangam
