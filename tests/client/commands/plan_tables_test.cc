#include "client/commands/plan_tables.h"

#include <string>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

constexpr char kReport[] = R"pb(
  forecast {
    strategy: DATA_PARALLEL
    ranks: 1
    replicas: 4
    chunks: 1
    data: "the batch: every worker has the whole model"
    purpose: "speed"
    method: "gradients meet at the servers"
    scaling: "to as many workers as there are shares"
    obstacle: "worker w3 needs 3.0 GiB, but its limit is 2.0 GiB"
    memory_bytes: 3221225472
    memory_limit_bytes: 2147483648
    parameter_wire_bytes: 1048576
    step_seconds: 0.08
  }
  forecast {
    strategy: HYBRID
    ranks: 2
    replicas: 2
    chunks: 1
    schedule: ONE_F_ONE_B
    data: "both"
    fits: true
    memory_bytes: 1610612736
    memory_limit_bytes: 2147483648
    parameter_wire_bytes: 1048576
    activation_wire_bytes: 524288
    step_seconds: 0.1234
    bubble: 0.125
    credits: 2
    lanes: 1
    idle_workers: 1
    stage {
      first_block: 0
      block_count: 3
      first_block_name: "embedding"
      last_block_name: "a-block-with-a-really-long-name"
      worker: "w0"
      worker: "w2"
      parameter_count: 1234567
      forward_seconds: 0.0042
      backward_seconds: 0.0084
      memory_bytes: 1610612736
      memory_limit_bytes: 2147483648
      in_flight: 2
      output_bytes: 65536
    }
    stage {
      first_block: 3
      block_count: 1
      first_block_name: "head"
      last_block_name: "head"
      worker: "w1"
      worker: "w3"
      parameter_count: 10
      forward_seconds: 0.00042
      backward_seconds: 0.00084
      memory_bytes: 1024
      memory_limit_bytes: 2147483648
      in_flight: 1
    }
  }
  feasible: true
  chosen: 1
  explanation: "HYBRID fits every worker;\nDATA_PARALLEL does not"
  cluster {
    worker { name: "w0" threads: 2 flops_per_second: 12.3e9 }
    worker { name: "w1" threads: 2 flops_per_second: 8.1e9 }
    servers: 1
    link_bytes_per_second: 125000000
  }
  measured: true
)pb";

TEST(PlanTablesTest, SaysNothingOfALimitWhereThereIsNone) {
  v1::PlanReport report = Parse<v1::PlanReport>(kReport);
  report.mutable_forecast(0)->set_memory_limit_bytes(0);
  const std::string text = FormatPlan(report);
  EXPECT_NE(text.find("\n  memory     3.0 GiB on the worker that needs most\n"), std::string::npos)
      << text;
}

TEST(PlanTablesTest, ShowsNoNumbersOfAPipelineThatCouldNotBePlanned) {
  v1::PlanReport report;
  v1::StrategyForecast* forecast = report.add_forecast();
  forecast->set_strategy(v1::HYBRID);
  forecast->set_obstacle("found 2 workers, expected at least 4");
  forecast->set_ranks(2);
  forecast->set_replicas(2);
  forecast->set_chunks(1);
  forecast->set_schedule(v1::ONE_F_ONE_B);
  const std::string text = FormatPlan(report);
  EXPECT_NE(text.find("  layout     2 pipelines of 2 workers, 1 stage on each, ONE_F_ONE_B\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("0.0%"), std::string::npos) << text;
}

TEST(PlanTablesTest, ShowsStrategiesChoiceAndStages) {
  EXPECT_EQ(
      FormatPlan(Parse<v1::PlanReport>(kReport)),
      R"(cluster      2 workers with 4 threads in all, 8.1 to 12.3 GFLOP/s per thread; 1 server; links of
             119.2 MiB/s; block times are measured

STRATEGY       WORKERS   MEMORY    LIMIT  WIRE/STEP     STEP  BUBBLE
DATA_PARALLEL        4  3.0 GiB  2.0 GiB    1.0 MiB  80.0 ms    0.0%  does not fit
HYBRID               4  1.5 GiB  2.0 GiB    1.5 MiB   123 ms   12.5%  chosen

DATA_PARALLEL
  obstacle   worker w3 needs 3.0 GiB, but its limit is 2.0 GiB
  layout     4 workers, each with the whole model
  data       the batch: every worker has the whole model
  purpose    speed
  method     gradients meet at the servers
  scaling    to as many workers as there are shares
  memory     3.0 GiB of 2.0 GiB on the worker that needs most
  wire       1.0 MiB of gradients and weights in each step

HYBRID
  layout     2 pipelines of 2 workers, 1 stage on each, ONE_F_ONE_B, 2 credits, 1 lane; 1 worker
             idle
  data       both
  memory     1.5 GiB of 2.0 GiB on the worker that needs most
  wire       1.0 MiB of gradients and weights, 512.0 KiB of activations and their gradients in each
             step

chosen       HYBRID
why          HYBRID fits every worker;
             DATA_PARALLEL does not

STAGE  BLOCKS                               WORKERS
    0  embedding..a-block-with-a-rea.. (3)  w0, w2
    1  head                                 w1, w3

STAGE  PARAMETERS  FORWARD  BACKWARD   MEMORY    LIMIT  IN FLIGHT    OUTPUT
    0   1,234,567   4.2 ms    8.4 ms  1.5 GiB  2.0 GiB          2  64.0 KiB
    1          10   420 us    840 us  1.0 KiB  2.0 GiB          1         -
)");
}

TEST(PlanTablesTest, NothingIsWiderThanTheScreen) {
  auto report = Parse<v1::PlanReport>(kReport);
  std::string words;
  for (int i = 0; i < 60; ++i) words += "some words ";
  report.set_explanation(words + "\n" + words);
  v1::StrategyForecast& forecast = *report.mutable_forecast(1);
  for (auto* text : {forecast.mutable_data(), forecast.mutable_purpose(), forecast.mutable_method(),
                     forecast.mutable_scaling()}) {
    *text = words;
  }
  for (int w = 0; w < 100; ++w)
    forecast.mutable_stage(0)->add_worker("worker-" + std::to_string(w));
  forecast.mutable_stage(0)->set_first_block_name(std::string(300, 'x'));
  forecast.mutable_stage(0)->set_parameter_count(123456789012345);
  const std::string text = FormatPlan(report);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    EXPECT_LE(line.size(), 100u) << line;
  }
  EXPECT_THAT(text, HasSubstr("worker-99"));
}

TEST(PlanTablesTest, AReportWithoutAPlan) {
  auto report = Parse<v1::PlanReport>(kReport);
  report.set_feasible(false);
  EXPECT_THAT(FormatPlan(report), AllOf(HasSubstr("\nchosen       none\nwhy          HYBRID fits"),
                                        Not(HasSubstr("FORWARD"))));
  // Of a coordinator that is not right.
  report.set_feasible(true);
  report.set_chosen(7);
  EXPECT_THAT(FormatPlan(report), HasSubstr("\nchosen       none\n"));
  report.set_chosen(4294967295);
  EXPECT_THAT(FormatPlan(report), HasSubstr("\nchosen       none\n"));
  EXPECT_THAT(FormatPlan(v1::PlanReport()), HasSubstr("0 workers"));
}

TEST(PlanTablesTest, StagesOfAJob) {
  const auto job = Parse<v1::Job>(R"pb(
    stage {
      first_block: "a"
      last_block: "c"
      block_count: 3
      parameter_count: 12345
      worker: "w0"
      worker: "w2"
    }
    stage { first_block: "d" last_block: "d" block_count: 1 worker: "w1" }
  )pb");
  EXPECT_EQ(FormatStages(job),
            "STAGE  BLOCKS    PARAMETERS  WORKERS\n"
            "    0  a..c (3)      12,345  w0, w2\n"
            "    1  d                  0  w1\n");
}

TEST(PlanTablesTest, NamesOfWhatIsNotKnown) {
  EXPECT_EQ(StrategyName(v1::HYBRID), "HYBRID");
  EXPECT_EQ(StrategyName(static_cast<v1::Strategy>(9)), "strategy 9");
  EXPECT_EQ(ScheduleName(v1::GPIPE), "GPIPE");
  EXPECT_EQ(ScheduleName(static_cast<v1::Schedule>(9)), "schedule 9");
}

}  // namespace
}  // namespace sangam
