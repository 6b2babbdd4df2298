#include "common/base/log_json.h"

#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

using nlohmann::json;

const absl::Time kTime = absl::FromUnixNanos(1700000000123456789);

std::string Line(absl::string_view event, absl::string_view fields, size_t max = 8192) {
  return LogLineToJson({kTime, "info", event, fields, "sangam-server"}, max);
}

TEST(LogJsonTest, FieldsAreMembers) {
  EXPECT_EQ(Line("job done", "job=7 worker=w-1 loss=0.25 path=\"a b\""),
            "{\"ts\":\"2023-11-14T22:13:20.123456789Z\",\"level\":\"info\",\"msg\":\"job done\","
            "\"component\":\"sangam-server\",\"job\":7,\"worker\":\"w-1\",\"loss\":0.25,"
            "\"path\":\"a b\"}");
}

TEST(LogJsonTest, WhatIsNoExactNumberIsText) {
  const json line = json::parse(Line(
      "x", "a=007 b=1e5 c=18446744073709551615 d=-1 e=1. f=.5 g=\"7\" h=-0.5 i=nan j= k=12:30"));
  for (const char* key : {"a", "b", "c", "e", "f", "g", "i", "j", "k"}) {
    EXPECT_TRUE(line[key].is_string()) << key;
  }
  EXPECT_EQ(line["d"], -1);
  EXPECT_EQ(line["h"], -0.5);
  EXPECT_EQ(line["c"], "18446744073709551615");
}

TEST(LogJsonTest, EscapesComeBack) {
  const json line = json::parse(Line("x", "text=\"line\\n \\\"quoted\\\" \\303\\251 \\377\""));
  EXPECT_EQ(line["text"], "line\n \"quoted\" \xC3\xA9 \xEF\xBF\xBD");
}

TEST(LogJsonTest, NothingTakesThePlaceOfAnotherMember) {
  const json line = json::parse(Line("x", "level=9 msg=y job=1 job=2 just words =z"));
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["msg"], "x");
  EXPECT_EQ(line["level_"], 9);
  EXPECT_EQ(line["msg_"], "y");
  EXPECT_EQ(line["job"], 1);
  EXPECT_EQ(line["job_"], 2);
  EXPECT_EQ(line["detail"], "just words =z");
}

TEST(LogJsonTest, StaysValidWhateverComes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (const std::string& fields : {bytes, "a=" + bytes, "a=\"" + bytes, std::string("a=\"\\"),
                                    std::string("\""), std::string("=")}) {
    EXPECT_TRUE(json::accept(Line(bytes, fields)));
  }
}

TEST(LogJsonTest, LongLinesAreCutAndStayJson) {
  for (const std::string& value : {std::string(100000, 'x'), std::string(100000, '\x01')}) {
    const std::string line = Line("x", "a=" + value + " job=7");
    EXPECT_LE(line.size(), 8192u);
    const json parsed = json::parse(line);
    EXPECT_THAT(parsed["a"].get<std::string>(), testing::EndsWith("..."));
  }
}

}  // namespace
}  // namespace sangam
