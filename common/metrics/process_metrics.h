#ifndef SANGAM_COMMON_METRICS_PROCESS_METRICS_H_
#define SANGAM_COMMON_METRICS_PROCESS_METRICS_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/base/refusal_counts.h"
#include "common/metrics/call_counts.h"
#include "common/metrics/metric_page.h"

// What every daemon shows of itself, whatever it does.
namespace sangam {

// What the system says of this process; a number that it does not say stays away.
struct ProcessFacts {
  std::optional<double> cpu_seconds;
  std::optional<double> resident_bytes;
  std::optional<double> virtual_bytes;
  std::optional<double> open_fds;
  std::optional<double> max_fds;
  std::optional<absl::Time> started;
  std::optional<double> threads;
};
ProcessFacts ReadProcessFacts();

// process_* and sangam_build_info. `role`: "coordinator", "server", "worker".
void AddProcessMetrics(const std::string& role, MetricPage* page);

// sangam_rpc_*.
void AddCallMetrics(const CallCounts& calls, MetricPage* page);

// sangam_admission_rejected_total, by reason.
void AddRefusals(const RefusalCounts& refusals, MetricPage* page);

}  // namespace sangam

#endif  // SANGAM_COMMON_METRICS_PROCESS_METRICS_H_
