#include "common/flags/flag_value.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

TEST(FlagValueTest, BytesHaveUnits) {
  EXPECT_EQ(*ParseBytes("0"), 0u);
  EXPECT_EQ(*ParseBytes("1500000"), 1'500'000u);
  EXPECT_EQ(*ParseBytes("12B"), 12u);
  EXPECT_EQ(*ParseBytes("3kB"), 3000u);
  EXPECT_EQ(*ParseBytes("3KiB"), 3072u);
  EXPECT_EQ(*ParseBytes("512MiB"), uint64_t{512} << 20);
  EXPECT_EQ(*ParseBytes("2GiB"), uint64_t{2} << 30);
  EXPECT_EQ(*ParseBytes("2GB"), 2'000'000'000u);
  EXPECT_EQ(*ParseBytes("1.5GiB"), uint64_t{3} << 29);
  EXPECT_EQ(*ParseBytes("1TiB"), uint64_t{1} << 40);
  EXPECT_EQ(*ParseBytes("18446744073709551615"), std::numeric_limits<uint64_t>::max());
}

TEST(FlagValueTest, MalformedBytesAreErrors) {
  for (const std::string value :
       {"", "GiB", "-1", "-1GiB", "1.5", "1.5B", "2gib", "2G", "2 XiB", "0x10", "1e400GiB",
        "nanGiB", "18446744073709551616", "20000000TiB", "1GiBGiB"}) {
    const auto bytes = ParseBytes(value);
    EXPECT_EQ(bytes.status().code(), absl::StatusCode::kInvalidArgument) << value;
    EXPECT_THAT(bytes.status().message(), HasSubstr("found '" + value + "', expected bytes"));
  }
}

TEST(FlagValueTest, FormattedBytesAreReadAgain) {
  EXPECT_EQ(FormatBytes(0), "0");
  EXPECT_EQ(FormatBytes(1500), "1500");
  EXPECT_EQ(FormatBytes(3072), "3KiB");
  EXPECT_EQ(FormatBytes(uint64_t{2} << 30), "2GiB");
  EXPECT_EQ(FormatBytes(uint64_t{3} << 29), "1536MiB");
  for (uint64_t bytes = 1; bytes < (uint64_t{1} << 50); bytes = bytes * 3 + 1) {
    EXPECT_EQ(*ParseBytes(FormatBytes(bytes)), bytes);
    EXPECT_EQ(*ParseBytes(FormatBytes(bytes << 10)), bytes << 10);
  }
}

TEST(FlagValueTest, RealNumbersStayInTheirRange) {
  EXPECT_EQ(*ParseReal("0.5", 0, 1), 0.5);
  EXPECT_EQ(*ParseReal("1e0", 0, 1), 1.0);
  for (const std::string value : {"", "x", "1.01", "-0.1", "nan", "inf"}) {
    EXPECT_THAT(ParseReal(value, 0, 1).status().message(), HasSubstr("a number from 0 to 1"));
  }
}

TEST(FlagValueTest, TimesStayInTheirRange) {
  EXPECT_EQ(*ParseTime("1m30s"), absl::Seconds(90));
  EXPECT_EQ(*ParseTime("1h", absl::Seconds(1), absl::Hours(1)), absl::Hours(1));
  EXPECT_EQ(ParseTime("61m", absl::Seconds(1), absl::Hours(1)).status().message(),
            "found '61m', expected a time from 1s to 1h");
  EXPECT_FALSE(ParseTime("0s").ok());
  EXPECT_FALSE(ParseTime("5").ok());
}

TEST(FlagValueTest, Switches) {
  EXPECT_TRUE(*ParseSwitch("true"));
  EXPECT_TRUE(*ParseSwitch("1"));
  EXPECT_FALSE(*ParseSwitch("false"));
  EXPECT_FALSE(*ParseSwitch("0"));
  EXPECT_FALSE(ParseSwitch("yes").ok());
}

TEST(FlagValueTest, CountsStayInTheirRange) {
  EXPECT_EQ(*ParseCount("8", 1, 8), 8u);
  EXPECT_EQ(ParseCount("9", 1, 8).status().message(),
            "found '9', expected a whole number from 1 to 8");
  EXPECT_EQ(ParseCount("0", 1).status().message(),
            "found '0', expected a whole number, at least 1");
}

TEST(FlagValueTest, MalformedSaysFoundAndExpected) {
  EXPECT_EQ(MalformedValue("a", "b").message(), "found 'a', expected b");
}

}  // namespace
}  // namespace sangam
