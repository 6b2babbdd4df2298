#include "common/flags/flags.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() {
    flags_.AddString({"out", "FILE", "Where to write."}, &out_);
    flags_.AddRepeated({"set", "PATH=VALUE", "Changes a field."}, &sets_);
    flags_.AddSwitch({"wait", "", "Wait for the end."}, &wait_);
    flags_.AddCount({"data_shards", "N", "Shards."}, &shards_, 1, 8);
    flags_.AddOptionalCount({"workers", "N", "Workers."}, &workers_, 1);
    flags_.AddDuration({"timeout", "TIME", "Limit."}, &timeout_);
    flags_.AddChoice({"output", "", "Form."}, {"table", "json"}, &output_);
  }

  // The message of the error that the arguments give.
  std::string Error(const std::vector<std::string>& arguments) {
    const auto result = flags_.Parse(arguments);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status().message());
  }

  FlagSet flags_;
  std::string out_ = "a.txt";
  std::vector<std::string> sets_;
  bool wait_ = false;
  uint64_t shards_ = 2;
  std::optional<uint64_t> workers_;
  absl::Duration timeout_ = absl::Seconds(10);
  std::string output_ = "table";
};

TEST_F(FlagsTest, KeepsDefaultsAndArguments) {
  const auto arguments = flags_.Parse({"one", "two"});
  ASSERT_TRUE(arguments.ok());
  EXPECT_THAT(*arguments, ElementsAre("one", "two"));
  EXPECT_EQ(out_, "a.txt");
  EXPECT_FALSE(wait_);
  EXPECT_EQ(workers_, std::nullopt);
  EXPECT_FALSE(flags_.help_requested());
}

TEST_F(FlagsTest, TakesValuesBehindEqualsOrAsTheNextArgument) {
  const auto arguments = flags_.Parse({"--out=b=c", "job", "--data_shards", "8", "--workers=3",
                                       "--timeout", "1m30s", "--output=json", "--wait", "rest"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(*arguments, ElementsAre("job", "rest"));
  EXPECT_EQ(out_, "b=c");
  EXPECT_EQ(shards_, 8u);
  EXPECT_EQ(workers_, 3u);
  EXPECT_EQ(timeout_, absl::Seconds(90));
  EXPECT_EQ(output_, "json");
  EXPECT_TRUE(wait_);
}

TEST_F(FlagsTest, DashesAndUnderscoresAreTheSameInNames) {
  ASSERT_TRUE(flags_.Parse({"--data-shards=3"}).ok());
  EXPECT_EQ(shards_, 3u);
}

TEST_F(FlagsTest, RepeatedFlagsKeepTheirOrderAndOthersTheLastValue) {
  ASSERT_TRUE(flags_.Parse({"--set=a=1", "--set", "b=2", "--out=x", "--out=y"}).ok());
  EXPECT_THAT(sets_, ElementsAre("a=1", "b=2"));
  EXPECT_EQ(out_, "y");
}

TEST_F(FlagsTest, SwitchesTakeTrueAndFalse) {
  ASSERT_TRUE(flags_.Parse({"--wait=true"}).ok());
  EXPECT_TRUE(wait_);
  ASSERT_TRUE(flags_.Parse({"--wait=false"}).ok());
  EXPECT_FALSE(wait_);
  EXPECT_THAT(Error({"--wait=yes"}), HasSubstr("found 'yes', expected true or false"));
}

TEST_F(FlagsTest, TwoDashesEndTheFlags) {
  const auto arguments = flags_.Parse({"--wait", "--", "--out=z", "-"});
  ASSERT_TRUE(arguments.ok());
  EXPECT_THAT(*arguments, ElementsAre("--out=z", "-"));
  EXPECT_EQ(out_, "a.txt");
}

TEST_F(FlagsTest, UnknownFlagsNameTheClosestOne) {
  EXPECT_EQ(Error({"--ouput=json"}), "unknown flag --ouput; did you mean '--output'?");
  EXPECT_EQ(Error({"--frobnicate"}), "unknown flag --frobnicate");
  EXPECT_EQ(Error({"--=3"}), "unknown flag --");
  EXPECT_THAT(Error({"-o", "x"}), HasSubstr("unknown flag -o; flags begin with two dashes"));
}

TEST_F(FlagsTest, LettersAreShortForms) {
  std::string file;
  bool quiet = false;
  flags_.AddString({"file", "FILE", "Where to write.", 'f'}, &file);
  flags_.AddSwitch({"quiet", "", "No words.", 'q'}, &quiet);
  auto arguments = flags_.Parse({"job", "-f", "-", "-q", "rest"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(*arguments, ElementsAre("job", "rest"));
  EXPECT_EQ(file, "-");
  EXPECT_TRUE(quiet);
  ASSERT_TRUE(flags_.Parse({"-fa.json"}).ok());
  EXPECT_EQ(file, "a.json");
  ASSERT_TRUE(flags_.Parse({"-f=b.json"}).ok());
  EXPECT_EQ(file, "b.json");
  ASSERT_TRUE(flags_.Parse({"--file=c.json"}).ok());
  EXPECT_EQ(file, "c.json");
  EXPECT_EQ(Error({"-f"}), "flag --file needs a value: --file=FILE");
  EXPECT_THAT(Error({"-qf"}), HasSubstr("unknown flag -qf"));
  EXPECT_THAT(flags_.Help(), HasSubstr("  --file=FILE, -f FILE\n      Where to write.\n"
                                       "  --quiet, -q\n      No words.\n"));
}

TEST_F(FlagsTest, MissingValuesAreErrors) {
  EXPECT_EQ(Error({"--out"}), "flag --out needs a value: --out=FILE");
}

TEST_F(FlagsTest, ValuesOutOfRangeAreErrors) {
  EXPECT_EQ(Error({"--data_shards=9"}),
            "flag --data_shards: found '9', expected a whole number from 1 to 8");
  for (const std::string value : {"0", "-1", "1.5", "x", "", "99999999999999999999999"}) {
    EXPECT_THAT(Error({"--workers=" + value}), HasSubstr("a whole number, at least 1"));
  }
  for (const std::string value : {"5", "0s", "-3s", "inf", ""}) {
    EXPECT_THAT(Error({"--timeout=" + value}), HasSubstr("a time such as 30s")) << value;
  }
  EXPECT_THAT(Error({"--output=xml"}), HasSubstr("found 'xml', expected table or json"));
  EXPECT_THAT(Error({"--output=jsn"}), HasSubstr("; did you mean 'json'?"));
}

TEST_F(FlagsTest, BytesRealNumbersAndTimesInARange) {
  uint64_t memory = 0;
  double speed = 10;
  absl::Duration lease = absl::Seconds(5);
  flags_.AddBytes({"memory", "BYTES", "Memory. Default: all."}, &memory);
  flags_.AddReal({"speed", "N", "Speed."}, &speed, 0.5, 100);
  flags_.AddDuration({"lease", "TIME", "Lease."}, &lease, absl::Seconds(1), absl::Hours(1));
  ASSERT_TRUE(flags_.Parse({"--memory=2GiB", "--speed=0.5", "--lease=1h"}).ok());
  EXPECT_EQ(memory, uint64_t{2} << 30);
  EXPECT_EQ(speed, 0.5);
  EXPECT_EQ(lease, absl::Hours(1));
  EXPECT_THAT(Error({"--memory=2G"}), HasSubstr("flag --memory: found '2G', expected bytes"));
  EXPECT_THAT(Error({"--speed=101"}), HasSubstr("flag --speed: found '101', expected a number"));
  EXPECT_THAT(Error({"--lease=1ms"}), HasSubstr("expected a time from 1s to 1h"));
  EXPECT_THAT(flags_.Help(), HasSubstr("  --memory=BYTES\n      Memory. Default: all.\n"
                                       "  --speed=N\n      Speed. Default: 10.\n"
                                       "  --lease=TIME\n      Lease. Default: 5s.\n"));
}

TEST_F(FlagsTest, ValuesRememberWhereTheyComeFrom) {
  EXPECT_EQ(flags_.Find("out")->origin, Origin::kDefault);
  ASSERT_TRUE(flags_.Set("out", "f", Origin::kFile, "a.conf:3").ok());
  EXPECT_EQ(out_, "f");
  EXPECT_EQ(flags_.Find("out")->place, "a.conf:3");
  ASSERT_TRUE(flags_.Parse({"--out=c"}).ok());
  EXPECT_EQ(flags_.Find("out")->given, "c");
  EXPECT_EQ(flags_.Find("out")->place, "flag --out");
  // What comes from further below is not looked at any more.
  ASSERT_TRUE(flags_.Set("out", "e", Origin::kEnvironment, "X").ok());
  EXPECT_EQ(out_, "c");
  EXPECT_EQ(flags_.Set("ou", "e", Origin::kFile, "a.conf:3").message(),
            "a.conf:3: unknown name 'ou'; did you mean 'out'?");
  EXPECT_EQ(flags_.Find("ou"), nullptr);
}

TEST_F(FlagsTest, HelpIsAskedForAnywhereButOthersAreStillChecked) {
  ASSERT_TRUE(flags_.Parse({"job", "--help"}).ok());
  EXPECT_TRUE(flags_.help_requested());
  EXPECT_THAT(Error({"-h", "--nothing"}), HasSubstr("--nothing"));
}

TEST_F(FlagsTest, HelpShowsFormsAndDefaults) {
  EXPECT_EQ(flags_.Help(),
            "  --out=FILE\n      Where to write. Default: a.txt.\n"
            "  --set=PATH=VALUE\n      Changes a field.\n"
            "  --wait\n      Wait for the end.\n"
            "  --data_shards=N\n      Shards. Default: 2.\n"
            "  --workers=N\n      Workers.\n"
            "  --timeout=TIME\n      Limit. Default: 10s.\n"
            "  --output=table|json\n      Form. Default: table.\n");
}

TEST_F(FlagsTest, HelpIsWrapped) {
  FlagSet flags;
  std::string value;
  std::string help;
  for (int i = 0; i < 40; ++i) help += "word ";
  flags.AddString({"x", "X", help}, &value);
  std::string line;
  for (const char c : flags.Help()) {
    if (c == '\n') {
      EXPECT_LE(line.size(), 80u);
      line.clear();
    } else {
      line.push_back(c);
    }
  }
}

}  // namespace
}  // namespace sangam
