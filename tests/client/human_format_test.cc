#include "client/human_format.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(HumanFormatTest, Durations) {
  EXPECT_EQ(HumanDuration(absl::ZeroDuration()), "0s");
  EXPECT_EQ(HumanDuration(-absl::Seconds(3)), "0s");
  EXPECT_EQ(HumanDuration(absl::Milliseconds(420)), "0.4s");
  EXPECT_EQ(HumanDuration(absl::Seconds(42)), "42s");
  EXPECT_EQ(HumanDuration(absl::Seconds(185)), "3m05s");
  EXPECT_EQ(HumanDuration(absl::Minutes(127)), "2h07m");
  EXPECT_EQ(HumanDuration(absl::Hours(76)), "3d04h");
}

TEST(HumanFormatTest, ShortTimes) {
  EXPECT_EQ(HumanSeconds(0.00042), "420 us");
  EXPECT_EQ(HumanSeconds(0.0041), "4.1 ms");
  EXPECT_EQ(HumanSeconds(0.0999), "99.9 ms");
  EXPECT_EQ(HumanSeconds(0.123), "123 ms");
  EXPECT_EQ(HumanSeconds(0.9996), "1.0 s");
  EXPECT_EQ(HumanSeconds(12.34), "12.3 s");
  for (const double none : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(HumanSeconds(none), "-");
  }
}

TEST(HumanFormatTest, LossesOverTokensHaveAUnit) {
  v1::JobSpec spec;
  EXPECT_EQ(LossUnit(spec), "");
  spec.mutable_loss()->mutable_softmax_cross_entropy();
  EXPECT_EQ(LossUnit(spec), "");
  spec.mutable_loss()->mutable_token_cross_entropy();
  EXPECT_EQ(LossUnit(spec), " nats/token");
}

TEST(HumanFormatTest, Bytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(uint64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(HumanBytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(HumanFormatTest, Counts) {
  EXPECT_EQ(HumanCount(0), "0");
  EXPECT_EQ(HumanCount(999), "999");
  EXPECT_EQ(HumanCount(1000), "1,000");
  EXPECT_EQ(HumanCount(101770), "101,770");
  EXPECT_EQ(HumanCount(1234567), "1,234,567");
}

TEST(HumanFormatTest, RatesAndLosses) {
  EXPECT_EQ(HumanRate(24103.4), "24103");
  EXPECT_EQ(HumanRate(12.34), "12.3");
  EXPECT_EQ(HumanLoss(0.35671), "0.3567");
  EXPECT_EQ(HumanLoss(0), "0.0000");
  EXPECT_EQ(HumanLoss(1234567), "1.235e+06");
  EXPECT_EQ(HumanLoss(0.00001234), "1.234e-05");
  EXPECT_EQ(HumanLoss(std::nan("")), "nan");
  EXPECT_EQ(HumanLoss(INFINITY), "inf");
}

TEST(HumanFormatTest, PercentIsWholeOnlyAtTheEnd) {
  EXPECT_EQ(Percent(0, 0), 0u);
  EXPECT_EQ(Percent(704, 705), 99u);
  EXPECT_EQ(Percent(705, 705), 100u);
  EXPECT_EQ(Percent(800, 705), 100u);
  EXPECT_EQ(Percent(29, 100), 29u);
  const uint64_t large = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(Percent(large / 2 + 1, large), 50u);
}

TEST(HumanFormatTest, Epochs) {
  EXPECT_EQ(EpochsOf(705, 235), 3u);
  EXPECT_EQ(EpochsOf(706, 235), 4u);
  EXPECT_EQ(EpochsOf(0, 235), 0u);
  EXPECT_EQ(EpochsOf(10, 0), 0u);
}

TEST(HumanFormatTest, States) {
  EXPECT_EQ(StateName(v1::RUNNING), "RUNNING");
  EXPECT_EQ(StateName(static_cast<v1::JobState>(77)), "state 77");
  EXPECT_TRUE(HasEnded(v1::FAILED));
  EXPECT_TRUE(HasEnded(v1::CANCELLED));
  EXPECT_TRUE(HasEnded(v1::SUCCEEDED));
  EXPECT_FALSE(HasEnded(v1::RUNNING));
  EXPECT_FALSE(HasEnded(v1::PREEMPTED));
}

TEST(HumanFormatTest, TextOfPeersCannotMoveTheCursor) {
  EXPECT_EQ(OneLine("  a\tb \x1b[2J  c\n\nd\r\n"), "a b [2J c; d");
  EXPECT_EQ(OneLine(""), "");
  EXPECT_EQ(OneLine("größer"), "größer");
  EXPECT_EQ(Printable("a\x07\nb\n\n"), "a\nb");
}

}  // namespace
}  // namespace sangam
