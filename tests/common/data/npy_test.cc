#include "common/data/npy.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/data/read_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/data/data_files.h"
#include "tests/testing/idx_bytes.h"

namespace sangam {
namespace {

using testing::AsFloat;
using testing::DataFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Items;
using testing::NpyBytes;

class NpyTest : public ::testing::Test {
 protected:
  absl::StatusOr<NpyData> Read(const std::string& inputs, const std::string& labels) const {
    return ReadNpy(DataFile("x.npy", inputs), DataFile("y.npy", labels), options_);
  }
  // Two labels, 0 and 1.
  static std::string Labels() { return NpyBytes("|u1", "(2,)", std::string("\0\1", 2)); }
  std::string Error(const std::string& inputs) const {
    const auto data = Read(inputs, Labels());
    EXPECT_FALSE(data.ok());
    return std::string(data.status().message());
  }
  // The two samples of one element that items of a type become.
  std::vector<float> Values(const std::string& dtype, const std::string& items) const {
    const auto data = Read(NpyBytes(dtype, "(2,)", items), Labels());
    EXPECT_TRUE(data.ok()) << data.status();
    if (!data.ok()) return {};
    return {data->table.InputsAt(0)[0], data->table.InputsAt(1)[0]};
  }

  ReadOptions options_;
};

TEST_F(NpyTest, ReadsEveryNumberType) {
  EXPECT_THAT(Values("<f4", Items<float>({1.5f, -2})), ElementsAre(1.5f, -2));
  EXPECT_THAT(Values("<f8", Items<double>({0.1, -2})), ElementsAre(0.1f, -2));
  EXPECT_THAT(Values("<f2", Items<uint16_t>({0x3555, 0x8001})),
              ElementsAre(0.333251953125f, -5.9604645e-8f));
  EXPECT_THAT(Values("|i1", Items<int8_t>({-128, 127})), ElementsAre(-128, 127));
  EXPECT_THAT(Values("<i2", Items<int16_t>({-3, 300})), ElementsAre(-3, 300));
  EXPECT_THAT(Values("<i4", Items<int32_t>({-70000, 7})), ElementsAre(-70000, 7));
  EXPECT_THAT(Values("<i8", Items<int64_t>({-1, int64_t{1} << 40})),
              ElementsAre(-1, 1099511627776.0f));
  EXPECT_THAT(Values("|u1", "\xff\x01"), ElementsAre(255, 1));
  EXPECT_THAT(Values("<u2", Items<uint16_t>({65535, 2})), ElementsAre(65535, 2));
  EXPECT_THAT(Values("<u4", Items<uint32_t>({4294967295u, 2})), ElementsAre(4294967296.0f, 2));
  EXPECT_THAT(Values("<u8", Items<uint64_t>({uint64_t{1} << 63, 2})),
              ElementsAre(9223372036854775808.0f, 2));
  EXPECT_THAT(Values("|b1", std::string("\0\1", 2)), ElementsAre(0, 1));
  EXPECT_THAT(Values(">i2", std::string("\x01\x02\xff\xfe", 4)), ElementsAre(258, -2));
  EXPECT_THAT(Values(">f4", std::string("\x3f\x80\0\0\xc0\0\0\0", 8)), ElementsAre(1, -2));
}

TEST_F(NpyTest, KeepsTheOrderOfItemsInBothLayouts) {
  const std::string c = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2, 3), }";
  const std::string fortran = "{'shape': (2,2,3), \"fortran_order\": True, 'descr': '<i4'}";
  const auto one =
      Read(NpyBytes(c, Items<int32_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})), Labels());
  // Item [s, a, b] is 6 s + 3 a + b; s moves fastest.
  const auto two =
      Read(NpyBytes(fortran, Items<int32_t>({0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11}), 3), Labels());
  for (const auto* data : {&one, &two}) {
    ASSERT_TRUE(data->ok()) << data->status();
    EXPECT_THAT((*data)->shape, ElementsAre(2, 3));
    EXPECT_EQ((*data)->table.rows(), 2);
    const float* last = (*data)->table.InputsAt(1);
    EXPECT_THAT(std::vector<float>(last, last + 6), ElementsAre(6, 7, 8, 9, 10, 11));
  }
}

TEST_F(NpyTest, LabelsAreWhatTheLossWants) {
  options_.rules.classes = 3;
  const std::string inputs = NpyBytes("|u1", "(2,)", "ab");
  auto data = Read(inputs, NpyBytes("<f4", "(2, 2)", Items<float>({0, 2, 1, 1})));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->table.labels(), 2);
  EXPECT_EQ(data->table.LabelsAt(0)[1], 2u);
  EXPECT_EQ(Read(inputs, NpyBytes("<f4", "(2,)", Items<float>({0, 1.5f}))).status().message(),
            "y.npy: item [1, 0] at offset 72: found 1.5, expected a class, a whole number below 3 "
            "(the number of the model's outputs)");
  EXPECT_FALSE(Read(inputs, NpyBytes("|i1", "(2,)", "\x01\xff")).ok());
  EXPECT_FALSE(Read(inputs, NpyBytes("|i1", "(2,)", "\x01\x03")).ok());
  options_.rules.label_kind = LabelKind::kNumber;
  data = Read(inputs, NpyBytes("<f4", "(2,)", Items<float>({-7, 1.5f})));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(AsFloat(data->table.LabelsAt(1)[0]), 1.5f);
  options_.rules.unit_targets = true;
  EXPECT_THAT(
      std::string(
          Read(inputs, NpyBytes("<f4", "(2,)", Items<float>({0, 1.5f}))).status().message()),
      HasSubstr("found 1.5, expected a number from 0 to 1"));
}

TEST_F(NpyTest, RefusesWhatIsNoNumber) {
  EXPECT_THAT(Error(NpyBytes("|O", "(2,)", "ab")),
              HasSubstr("x.npy: header at offset 20: found dtype \"|O\" (objects), expected f2,"));
  EXPECT_THAT(Error(NpyBytes("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
                             "aaaabbbb")),
              HasSubstr("found a structured dtype, expected one number type"));
  for (const char* dtype : {"<U8", "<c8", "<f16", "f1", "", "<", "<M8", "u3"}) {
    EXPECT_THAT(Error(NpyBytes(dtype, "(2,)", "ab")), HasSubstr("found dtype \""));
  }
  EXPECT_THAT(Error(NpyBytes("<f8", "(2,)", Items<double>({1, 1e300}))),
              HasSubstr("item [1, 0] at offset 76: found 1e+300, expected a number within"));
  EXPECT_THAT(Error(NpyBytes("<f2", "(2,)", Items<uint16_t>({0x7c00, 0}))), HasSubstr("found inf"));
  EXPECT_THAT(Error(NpyBytes("<f2", "(2,)", Items<uint16_t>({0x7e00, 0}))), HasSubstr("found nan"));
}

TEST_F(NpyTest, RefusesFaultyHeaders) {
  EXPECT_THAT(Error(std::string("\x93NUMPX\1\0", 8)), HasSubstr("magic at offset 0: found"));
  EXPECT_THAT(Error("\x93NUM"), HasSubstr("x.npy: ends at offset 4"));
  EXPECT_THAT(Error(NpyBytes("{}", "", 4)), HasSubstr("version at offset 6: found 4.0"));
  EXPECT_THAT(Error(std::string("\x93NUMPY\2\0\xff\xff\xff\x7f", 12)),
              HasSubstr("header length at offset 8: found 2147483647, expected at most 65536"));
  EXPECT_THAT(Error(NpyBytes("{}", "")), HasSubstr("found the end of the dictionary"));
  EXPECT_THAT(Error(NpyBytes("{'descr': '<f4', 'descr': '<f4'}", "")),
              HasSubstr("found key \"descr\", expected descr, fortran_order and shape, each once"));
  EXPECT_THAT(Error(NpyBytes("{'order': 1}", "")), HasSubstr("found key \"order\""));
  EXPECT_THAT(Error(NpyBytes("{'descr'", "")), HasSubstr("expected ':'"));
  EXPECT_THAT(Error(NpyBytes("{descr", "")), HasSubstr("expected a key in quotes"));
  EXPECT_THAT(Error(NpyBytes("{'fortran_order': 1}", "")), HasSubstr("expected True or False"));
  const std::string good = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}";
  EXPECT_THAT(Error(NpyBytes(good + " x", "ab")), HasSubstr("expected the end of the header"));
  for (const char* shape : {"(0,)", "(-1,)", "(a)", "(18446744073709551616,)"}) {
    EXPECT_THAT(Error(NpyBytes("|u1", shape, "")), HasSubstr("expected a size, a whole number"));
  }
  EXPECT_THAT(Error(NpyBytes("|u1", "(2.0,)", "")), HasSubstr("found \".0,), }"));
  EXPECT_THAT(Error(NpyBytes("|u1", "()", "a")), HasSubstr("found no dimension"));
  EXPECT_THAT(Error(NpyBytes("|u1", "(4294967296, 4294967296)", "a")),
              HasSubstr("more dimensions or items"));
}

TEST_F(NpyTest, ShapesMustAgreeWithTheFile) {
  EXPECT_THAT(Error(NpyBytes("<f4", "(2, 1000000)", "abcd")),
              HasSubstr("shape (2, 1000000) of 4-byte items: found at most 4 bytes behind the "
                        "header of"));
  EXPECT_THAT(Error(NpyBytes("|u1", "(2,)", "abc")), HasSubstr("found 3 bytes behind the header"));
  EXPECT_THAT(
      Error(NpyBytes("|u1", "(3,)", "abc")),
      HasSubstr("y.npy: shape: found 2 labels, expected 3, the number of samples in x.npy"));
  EXPECT_THAT(Error(testing::Gzip(NpyBytes("|u1", "(2,2)", "abc"))), HasSubstr("ends at offset"));
  EXPECT_THAT(Error(testing::Gzip(NpyBytes("|u1", "(2,)", "abc"))), HasSubstr("more bytes"));
  EXPECT_TRUE(Read(testing::Gzip(NpyBytes("|u1", "(2,)", "ab")), Labels()).ok());
}

TEST_F(NpyTest, TokensAreWholeNumbersBelowTheVocabulary) {
  options_.rules.vocabulary = 5;
  EXPECT_TRUE(Read(NpyBytes("|u1", "(2,)", "\4\1"), Labels()).ok());
  EXPECT_THAT(Error(NpyBytes("|u1", "(2,)", "\4\5")),
              HasSubstr("found 5, expected a token, a whole number below 5"));
}

TEST_F(NpyTest, KeepsToItsMemoryAndStopsWhenAsked) {
  const std::string inputs = NpyBytes("|u1", "(2, 3)", "abcdef");
  options_.max_memory_bytes = 2 * (3 + 1) * 4;
  EXPECT_TRUE(Read(inputs, Labels()).ok());
  --options_.max_memory_bytes;
  EXPECT_EQ(Read(inputs, Labels()).status().code(), absl::StatusCode::kResourceExhausted);
  ++options_.max_memory_bytes;
  const std::atomic<bool> cancelled{true};
  options_.cancelled = &cancelled;
  EXPECT_EQ(Read(inputs, Labels()).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace sangam
