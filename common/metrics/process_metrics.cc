#include "common/metrics/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/refusal_counts.h"
#include "common/base/version.h"
#include "common/metrics/call_counts.h"
#include "common/metrics/metric_page.h"

namespace sangam {
namespace {

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<double> CountOpenFiles() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  double count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count - 3;  // ".", ".." and the folder itself
}

// When the machine started.
std::optional<double> BootSeconds() {
  const std::string stat = ReadAll("/proc/stat");
  const size_t at = stat.find("\nbtime ");
  double seconds = 0;
  if (at == std::string::npos) return std::nullopt;
  const absl::string_view rest = absl::string_view(stat).substr(at + 7);
  if (!absl::SimpleAtod(rest.substr(0, rest.find('\n')), &seconds)) return std::nullopt;
  return seconds;
}

void AddOptional(const std::string& name, const std::string& help,
                 const std::optional<double>& value, MetricPage* page) {
  if (value.has_value()) page->Gauge(name, help, *value);
}

}  // namespace

ProcessFacts ReadProcessFacts() {
  ProcessFacts facts;
  facts.open_fds = CountOpenFiles();
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.max_fds = static_cast<double>(limit.rlim_cur);
  const std::string stat = ReadAll("/proc/self/stat");
  // The second field is the program's name in parentheses, which may hold anything.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return facts;
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(stat).substr(name_end + 1), ' ', absl::SkipEmpty());
  // Numbered as in proc(5), where the one behind the name is the third.
  const auto field = [&fields](size_t number) -> std::optional<double> {
    double value = 0;
    const size_t index = number - 3;
    if (index >= fields.size() || !absl::SimpleAtod(fields[index], &value)) return std::nullopt;
    return value;
  };
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (field(14).has_value() && field(15).has_value()) {
    facts.cpu_seconds = (*field(14) + *field(15)) / ticks;
  }
  facts.threads = field(20);
  facts.virtual_bytes = field(23);
  if (field(24).has_value()) {
    facts.resident_bytes = *field(24) * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  const std::optional<double> boot = BootSeconds();
  if (boot.has_value() && field(22).has_value()) {
    facts.started = absl::UnixEpoch() + absl::Seconds(*boot + *field(22) / ticks);
  }
  return facts;
}

void AddProcessMetrics(const std::string& role, MetricPage* page) {
  page->Gauge(
      "sangam_build_info", "1, for the program's version and role", 1,
      {{"version", kVersion}, {"protocol", absl::StrCat(kProtocolVersion)}, {"role", role}});
  const ProcessFacts facts = ReadProcessFacts();
  if (facts.cpu_seconds.has_value()) {
    page->Counter("process_cpu_seconds_total", "Processor time, user and system",
                  *facts.cpu_seconds);
  }
  AddOptional("process_resident_memory_bytes", "Memory that is in use", facts.resident_bytes, page);
  AddOptional("process_virtual_memory_bytes", "Address space that is in use", facts.virtual_bytes,
              page);
  AddOptional("process_open_fds", "Open files and connections", facts.open_fds, page);
  AddOptional("process_max_fds", "Most files and connections that may be open", facts.max_fds,
              page);
  AddOptional("process_threads", "Threads", facts.threads, page);
  if (facts.started.has_value()) {
    page->Gauge("process_start_time_seconds", "When the process started, since 1970",
                absl::ToDoubleSeconds(*facts.started - absl::UnixEpoch()));
  }
}

void AddCallMetrics(const CallCounts& calls, MetricPage* page) {
  for (const auto& [name, method] : calls.Methods()) {
    for (const auto& [code, count] : method.codes) {
      page->Counter("sangam_rpc_requests_total", "Calls that were answered",
                    static_cast<double>(count), {{"method", name}, {"code", code}});
    }
    MetricPage::Histogram histogram;
    for (size_t i = 0; i < CallCounts::kBounds.size(); ++i) {
      histogram.count += method.times[i];
      histogram.buckets.emplace_back(CallCounts::kBounds[i], histogram.count);
    }
    histogram.count = method.calls;
    histogram.sum = method.seconds;
    page->AddHistogram("sangam_rpc_duration_seconds", "How long calls took, streams included",
                       histogram, {{"method", name}});
  }
}

void AddRefusals(const RefusalCounts& refusals, MetricPage* page) {
  for (size_t i = 0; i < kNumRefusals; ++i) {
    const auto refusal = static_cast<Refusal>(i);
    page->Counter("sangam_admission_rejected_total", "What was refused because there is a limit",
                  static_cast<double>(refusals.Get(refusal)), {{"reason", RefusalName(refusal)}});
  }
}

}  // namespace sangam
