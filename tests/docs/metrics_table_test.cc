// docs/observability.md lists exactly the metrics that the daemons have, with their types and
// labels.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/admin/daemon_admin.h"
#include "common/base/refusal_counts.h"
#include "common/metrics/call_counts.h"
#include "common/metrics/counters.h"
#include "common/metrics/metric_page.h"
#include "common/metrics/process_metrics.h"
#include "gtest/gtest.h"
#include "server/server_metrics.h"
#include "tests/testing/subprocess.h"
#include "worker/report_counts.h"
#include "worker/worker_metrics.h"

namespace sangam {
namespace {

struct Entry {
  std::string type;
  std::set<std::string> labels;
  friend bool operator==(const Entry& a, const Entry& b) {
    return a.type == b.type && a.labels == b.labels;
  }
};
std::ostream& operator<<(std::ostream& out, const Entry& entry) {
  return out << entry.type << "{" << absl::StrJoin(entry.labels, ",") << "}";
}
using Metrics = std::map<std::string, Entry>;

// Everything that a server can show.
ServerSnapshot FullSnapshot() {
  ServerSnapshot snapshot;
  ServerSnapshot::Coordinating coordinating;
  v1::DaemonStatus* const worker = coordinating.cluster.add_daemon();
  worker->set_role("worker");
  worker->set_name("w1");
  v1::Job job;
  job.set_id(1);
  job.set_state(v1::RUNNING);
  job.mutable_progress()->set_steps_done(1);
  job.mutable_utilization();
  job.add_checkpoint();
  coordinating.jobs.push_back(job);
  coordinating.keeps_checkpoints = true;
  snapshot.coordinating = coordinating;
  ServerSnapshot::Holding holding;
  holding.jobs.push_back({1, 1, 2, 3, false});
  holding.memory_limit = 1;
  snapshot.holding = holding;
  return snapshot;
}

class NoSink : public ReportSink {
 public:
  void Report(uint64_t, uint64_t, v1::JobReport) override {}
};

void Read(const std::string& text, Metrics* metrics) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 3));
    if (words.size() == 4 && words[0] == "#" && words[1] == "TYPE") {
      (*metrics)[words[2]].type = words[3];
    }
    const size_t brace = line.find('{');
    if (absl::StartsWith(line, "#") || brace == absl::string_view::npos) continue;
    std::string name(line.substr(0, brace));
    for (const char* part : {"_bucket", "_sum", "_count"}) {
      const std::string base = name.substr(0, name.size() - std::string(part).size());
      if (absl::EndsWith(name, part) && metrics->count(base) > 0) name = base;
    }
    const absl::string_view labels = line.substr(brace + 1, line.rfind('}') - brace - 1);
    for (const absl::string_view label : absl::StrSplit(labels, ',', absl::SkipEmpty())) {
      const std::string key(label.substr(0, label.find('=')));
      if (key != "le") (*metrics)[name].labels.insert(key);
    }
  }
}

Metrics Exported() {
  Metrics metrics;
  DaemonAdmin admin({"worker", "w1", 1, {}});
  ProcessCalls().Add("/a/B", "OK", absl::Seconds(1));
  Read(admin.MetricsText(), &metrics);
  MetricPage server;
  AddServerMetrics(FullSnapshot(), Counters(), &server);
  Read(server.Text(), &metrics);
  const RefusalCounts refusals;
  MetricPage limits;
  AddRefusals(refusals, &limits);
  Read(limits.Text(), &metrics);
  NoSink none;
  ReportCounts reports(&none);
  reports.Report(1, 1, v1::JobReport());
  WorkerMetrics::Facts facts;
  facts.device.set_name("GPU");
  const Counters counters;
  MetricPage worker;
  WorkerMetrics(facts, &reports, &counters, &refusals).AddMetrics(&worker);
  Read(worker.Text(), &metrics);
  // Only with TLS.
  metrics["sangam_certificate_expiry_timestamp_seconds"].type = "gauge";
  return metrics;
}

Metrics Documented() {
  Metrics metrics;
  const auto text = testing::ReadFile(testing::Runfile("docs/observability.md"));
  EXPECT_TRUE(text.ok()) << text.status();
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() != 6) continue;
    for (std::string& cell : cells) cell = std::string(absl::StripAsciiWhitespace(cell));
    if (!absl::StartsWith(cells[1], "`")) continue;
    Entry& entry = metrics[cells[1].substr(1, cells[1].size() - 2)];
    entry.type = cells[2];
    for (const absl::string_view label : absl::StrSplit(cells[3], ", ", absl::SkipEmpty())) {
      entry.labels.emplace(label);
    }
  }
  return metrics;
}

TEST(MetricsTableTest, IsWhatTheDaemonsExport) {
  const Metrics documented = Documented();
  const Metrics exported = Exported();
  EXPECT_GT(exported.size(), 50u);
  for (const auto& [name, entry] : exported) {
    ASSERT_EQ(documented.count(name), 1u) << name << " is not documented";
    EXPECT_EQ(documented.at(name), entry) << name;
  }
  for (const auto& [name, entry] : documented) {
    EXPECT_EQ(exported.count(name), 1u) << name << " is documented, but nobody exports it";
  }
}

}  // namespace
}  // namespace sangam
