#include "client/trace_json.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

nlohmann::json Convert(const std::string& text) {
  v1::JobTrace trace;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &trace));
  v1::Job job;
  job.add_stage()->set_first_block("a");
  job.add_stage()->set_first_block("c");
  return nlohmann::json::parse(ToChromeTrace(trace, job));
}

// Two stages, [a b] and [c d e]; worker w1 has both lanes at work.
constexpr char kTrace[] = R"pb(
  job: 12
  name: "gpt"
  block: "a"
  block: "b"
  block: "c"
  block: "d"
  block: "e"
  worker {
    worker: "w0"
    rank: 0
    step {
      step: 7
      event { activity: FORWARD block: 0 micro_batch: 3 begin_us: 1700000000000100 duration_us: 40 }
      event { activity: SEND block: 2 micro_batch: 3 begin_us: 1700000000000140 duration_us: 2 }
    }
  }
  worker {
    worker: "w1"
    rank: 1
    step {
      step: 7
      event { activity: WAIT block: 2 begin_us: 1700000000000090 duration_us: 5 lane: 1 }
      event { activity: FORWARD block: 2 micro_batch: 4 begin_us: 1700000000000150 lane: 1 }
      event { activity: LOSS block: 4 micro_batch: 4 begin_us: 1700000000000151 lane: 1 }
      event { activity: BACKWARD block: 4 micro_batch: 4 begin_us: 1700000000000152 lane: 1 }
      event { activity: WEIGHT_GRADIENT block: 4 micro_batch: 4 begin_us: 1700000000000153 }
      event { activity: PUSH block: 3 micro_batch: 1 begin_us: 1700000000000154 }
      event { activity: RECEIVE block: 2 micro_batch: 5 begin_us: 1700000000000155 }
      event { activity: LOAD block: 0 micro_batch: 6 begin_us: 1700000000000156 }
    }
  }
)pb";

std::vector<nlohmann::json> Events(const nlohmann::json& trace, const std::string& phase) {
  std::vector<nlohmann::json> events;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) events.push_back(event);
  }
  return events;
}

std::vector<std::string> PassNames(const nlohmann::json& trace) {
  std::vector<std::string> names;
  for (const nlohmann::json& event : Events(trace, "X")) {
    if (event["cat"] == "compute") names.push_back(event["name"]);
  }
  return names;
}

TEST(TraceJsonTest, EventsHaveNamesTimesAndArguments) {
  const nlohmann::json trace = Convert(kTrace);
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  EXPECT_EQ(trace["otherData"], nlohmann::json({{"job", 12}, {"name", "gpt"}}));
  const std::vector<nlohmann::json> events = Events(trace, "X");
  ASSERT_EQ(events.size(), 10u);
  // The earliest event of all is another worker's.
  const nlohmann::json expected = {
      {"ph", "X"},
      {"name", "forward a..b mb 3"},
      {"cat", "compute"},
      {"cname", "thread_state_running"},
      {"pid", 1},
      {"tid", 0},
      {"ts", 10},
      {"dur", 40},
      {"args", {{"step", 7}, {"micro_batch", 3}, {"block", "a"}}},
  };
  EXPECT_EQ(events[0], expected);
  EXPECT_EQ(events[2]["ts"], 0);
  EXPECT_EQ(events[2]["pid"], 2);
  EXPECT_EQ(events[2]["tid"], 1);
  EXPECT_EQ(events[7]["args"], nlohmann::json({{"step", 7}, {"share", 1}, {"block", "d"}}));
}

TEST(TraceJsonTest, NamesTellActivityAndPlace) {
  std::vector<std::string> names;
  std::vector<std::string> categories;
  for (const nlohmann::json& event : Events(Convert(kTrace), "X")) {
    names.push_back(event["name"]);
    categories.push_back(event["cat"]);
  }
  EXPECT_THAT(names, ElementsAre("forward a..b mb 3", "send c mb 3", "wait c", "forward c..e mb 4",
                                 "loss mb 4", "backward c..e mb 4", "weight gradient c..e mb 4",
                                 "push d share 1", "receive c mb 5", "load mb 6"));
  EXPECT_THAT(categories, ElementsAre("compute", "link", "wait", "compute", "compute", "compute",
                                      "compute", "push", "link", "load"));
}

TEST(TraceJsonTest, APassEndsWhereTheNextOneTakesOver) {
  const nlohmann::json trace = Convert(R"pb(
    block: "a"
    block: "b"
    block: "c"
    block: "d"
    block: "e"
    worker {
      step {
        event { activity: FORWARD block: 2 micro_batch: 0 }
        event { activity: WAIT block: 4 }
        event { activity: FORWARD block: 4 micro_batch: 0 }
        event { activity: FORWARD block: 0 micro_batch: 0 }
        event { activity: FORWARD block: 2 micro_batch: 1 }
        event { activity: BACKWARD block: 4 micro_batch: 0 }
        event { activity: PUSH block: 3 micro_batch: 0 }
        event { activity: BACKWARD block: 2 micro_batch: 0 }
      }
    }
  )pb");
  EXPECT_THAT(PassNames(trace),
              ElementsAre("forward c..d mb 0", "forward e mb 0", "forward a..b mb 0",
                          "forward c..e mb 1", "backward d..e mb 0", "backward c mb 0"));
}

TEST(TraceJsonTest, APassThatIsInterruptedStaysInItsBlock) {
  const nlohmann::json trace = Convert(R"pb(
    block: "a"
    block: "b"
    block: "c"
    worker {
      step {
        event { activity: FORWARD block: 0 micro_batch: 0 }
        event { activity: WAIT block: 0 }
        event { activity: FORWARD block: 0 micro_batch: 0 }
        event { activity: BACKWARD block: 1 micro_batch: 0 }
        event { activity: PUSH block: 1 }
        event { activity: BACKWARD block: 1 micro_batch: 0 }
        event { activity: PUSH block: 1 }
        event { activity: BACKWARD block: 0 micro_batch: 0 }
      }
    }
  )pb");
  EXPECT_THAT(PassNames(trace),
              ElementsAre("forward a mb 0", "forward a..b mb 0", "backward b mb 0",
                          "backward b mb 0", "backward a mb 0"));
}

TEST(TraceJsonTest, WorkersAreProcessesAndLanesThreads) {
  std::vector<std::string> names;
  for (const nlohmann::json& event : Events(Convert(kTrace), "M")) {
    if (!event["args"].contains("name")) continue;
    names.push_back(event["name"].get<std::string>() + " " + event["pid"].dump() + "/" +
                    event["tid"].dump() + " " + event["args"]["name"].get<std::string>());
  }
  EXPECT_THAT(names, ElementsAre("process_name 1/0 w0 (rank 0)", "thread_name 1/0 lane 0",
                                 "process_name 2/0 w1 (rank 1)", "thread_name 2/0 lane 0",
                                 "thread_name 2/1 lane 1"));
}

TEST(TraceJsonTest, AnEmptyTraceIsStillAFile) {
  EXPECT_EQ(Convert("job: 1")["traceEvents"].size(), 0u);
  EXPECT_EQ(Events(Convert("worker { worker: 'w' step {} }"), "X").size(), 0u);
}

TEST(TraceJsonTest, WhatIsNotKnownIsShownAllTheSame) {
  v1::JobTrace trace;
  v1::TraceEvent& event = *trace.add_worker()->add_step()->add_event();
  event.set_activity(static_cast<v1::Activity>(99));
  event.set_block(1000);
  trace.mutable_worker(0)->set_worker("a\"\n\xc3\xa4");
  const std::string text = ToChromeTrace(trace, v1::Job());
  EXPECT_THAT(text, HasSubstr("\"name\":\"other #1000 mb 0\""));
  EXPECT_EQ(nlohmann::json::parse(text)["traceEvents"].size(), 5u);
}

}  // namespace
}  // namespace sangam
