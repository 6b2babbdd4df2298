// docs/limits.md has the numbers that the code has.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/log_repeats.h"
#include "common/base/refusal_counts.h"
#include "common/flags/flags.h"
#include "common/metrics/metric_page.h"
#include "common/rpc/connection_gate.h"
#include "common/rpc/limit_flags.h"
#include "common/rpc/request_guard.h"
#include "common/rpc/server_runner.h"
#include "gtest/gtest.h"
#include "server/core/control_plane.h"
#include "server/core/job_table.h"
#include "server/core/log_store.h"
#include "server/core/membership.h"
#include "server/core/trace_store.h"
#include "server/rpc/data_service.h"
#include "server/rpc/feed_stream.h"
#include "server/rpc/parameter_service.h"
#include "tests/testing/subprocess.h"

namespace sangam {
namespace {

// "10 s", "5 min".
std::string Time(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  return seconds >= 60 ? absl::StrCat(seconds / 60, " min") : absl::StrCat(seconds, " s");
}

// "256", "65,536".
std::string Count(uint64_t count) {
  return count < 10'000 ? absl::StrCat(count)
                        : absl::StrCat(count / 1000, ",", absl::Dec(count % 1000, absl::kZeroPad3));
}

std::string Bytes(uint64_t bytes) {
  return bytes >= 1 << 20 ? absl::StrCat(bytes >> 20, " MiB") : absl::StrCat(bytes >> 10, " KiB");
}

class LimitsTableTest : public ::testing::Test {
 protected:
  LimitsTableTest() {
    const auto text = testing::ReadFile("docs/limits.md");
    EXPECT_TRUE(text.ok()) << text.status();
    if (text.ok()) text_ = *text;
  }

  // Whether the row of this name begins its default so, and names the flag.
  void ExpectRow(absl::string_view name, absl::string_view value, absl::string_view flag = "") {
    const std::string begin = absl::StrCat("| ", name, " | ");
    for (const absl::string_view line : absl::StrSplit(text_, '\n')) {
      if (!absl::StartsWith(line, begin)) continue;
      EXPECT_TRUE(absl::StartsWith(line.substr(begin.size()), value))
          << line << "\nlacks " << value;
      if (!flag.empty()) {
        EXPECT_TRUE(absl::StrContains(line, absl::StrCat("| `--", flag, "` |"))) << line;
      }
      return;
    }
    ADD_FAILURE() << "no row for \"" << name << "\"";
  }

  std::string text_;
};

TEST_F(LimitsTableTest, HasTheDefaultsOfTheCode) {
  const LimitFlags flags;
  const ServerRunner::Options runner;
  const ConnectionGate::Options gate;
  ExpectRow("connections at once", Count(flags.max_connections), "max_connections");
  EXPECT_EQ(flags.max_connections, runner.max_connections);
  EXPECT_EQ(flags.max_connections, gate.max_connections);
  ExpectRow("silence at the beginning of a connection", Time(runner.handshake_timeout));
  ExpectRow("TLS and HTTP/2 from the first byte on", Time(runner.handshake_timeout));
  ExpectRow("a connection without a call", Time(runner.max_connection_idle));
  ExpectRow("first message of a call", Time(flags.stalled_call_timeout), "stalled_call_timeout");
  ExpectRow("a client that does not read what it is sent", Time(flags.stalled_call_timeout),
            "stalled_call_timeout");
  ExpectRow("synchronous calls served at once", Count(runner.max_threads));
  const CallLimits calls;
  ExpectRow("calls that follow a job or its log",
            absl::StrCat(calls.max_watches, ", ", calls.max_watches_of_one, " of one caller"));
  ExpectRow("heartbeats that wait for news", Count(calls.max_waiting_heartbeats));
  // With those that watch health; the rest is for short calls.
  EXPECT_LE(calls.max_watches + calls.max_waiting_heartbeats + 64, runner.max_threads * 7u / 8);
  ExpectRow("a message", Bytes(runner.max_receive_bytes));
  ExpectRow("memory for peers",
            absl::StrCat("a quarter of what the cgroup or machine has, at least ",
                         Bytes(kLeastMemoryBudget)),
            "memory_budget");
  ExpectRow("queued jobs", Count(flags.max_queued_jobs), "max_queued_jobs");
  ExpectRow("queued jobs of one user with a name", Count(flags.max_queued_jobs_of_one),
            "max_queued_jobs_of_one");
  ExpectRow("running jobs of one user with a name",
            flags.max_running_jobs_of_one == 0 ? "no limit" : Count(flags.max_running_jobs_of_one),
            "max_running_jobs_of_one");
  EXPECT_EQ(ControlPlane::Options().max_running_of_one, flags.max_running_jobs_of_one);
  const JobTable::Options jobs;
  EXPECT_EQ(jobs.max_queued, flags.max_queued_jobs);
  EXPECT_EQ(jobs.max_queued_of_one, flags.max_queued_jobs_of_one);
  ExpectRow("ended jobs that are remembered", Count(jobs.max_ended));
  ExpectRow("events of a job", Count(jobs.max_events));
  const LogStore::Options logs;
  ExpectRow("a line of a job's log", Bytes(logs.max_line_bytes));
  ExpectRow("lines of a job, jobs with lines",
            absl::StrCat(logs.max_lines, " and ", Bytes(logs.max_bytes), ", ", logs.max_jobs));
  const TraceStore::Options traces;
  ExpectRow("a job's trace, jobs with traces",
            absl::StrCat(Bytes(traces.max_bytes), ", ", traces.max_jobs));
  const ParameterService::Options parameters;
  ExpectRow(
      "calls that read weights (`sangam export`)",
      absl::StrCat(parameters.max_reads, ", ", parameters.max_reads_of_one, " of one caller"));
  ExpectRow("streams of one service", Count(parameters.max_calls));
  ExpectRow("pages that wait for one worker", Count(parameters.max_waiting_frames));
  const DataService::Options data;
  ExpectRow("requests of a feed that are unanswered", Count(data.max_requests));
  ExpectRow("a message of a feed from a worker", Bytes(FeedContext().max_message_bytes));
  ExpectRow("a line of a daemon's log", Bytes(kMaxLogLineBytes));
  const LogRepeats::Options repeats;
  ExpectRow("equal lines of a daemon's log",
            absl::StrCat(repeats.written, " in ", Time(repeats.period)));
  ExpectRow("a label's value in metrics, series of a metric",
            absl::StrCat("64 bytes, ", MetricPage::kMaxSeries));
  ExpectRow("daemons", Count(Membership::Options().max_daemons));
}

TEST_F(LimitsTableTest, HasEveryReasonOfARefusal) {
  for (size_t i = 0; i < kNumRefusals; ++i) {
    const std::string reason = absl::StrCat("`", RefusalName(static_cast<Refusal>(i)), "`");
    EXPECT_TRUE(absl::StrContains(text_, reason)) << reason;
  }
}

TEST_F(LimitsTableTest, HasEveryFlag) {
  LimitFlags limits;
  FlagSet flags;
  limits.AddServerFlags(&flags);
  // Each entry of the help begins with its name.
  for (const absl::string_view line : absl::StrSplit(flags.Help(), '\n')) {
    const size_t begin = line.find("--");
    if (begin == absl::string_view::npos || begin > 4) continue;
    const absl::string_view name = line.substr(begin, line.find_first_of("=[ ", begin) - begin);
    EXPECT_TRUE(absl::StrContains(text_, absl::StrCat("`", name, "`"))) << name;
  }
}

}  // namespace
}  // namespace sangam
