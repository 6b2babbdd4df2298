#ifndef SANGAM_SERVER_SERVER_METRICS_H_
#define SANGAM_SERVER_SERVER_METRICS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/metrics/counters.h"
#include "common/metrics/metric_page.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "server/runtime/shard_table.h"
#include "server/runtime/stall_watch.h"

// What a server process shows of itself. docs/observability.md has the table of the metrics.
namespace sangam {

// What it is and does, at one moment.
struct ServerSnapshot {
  // As a coordinator.
  struct Coordinating {
    v1::Cluster cluster;
    std::vector<v1::Job> jobs;              // newest first
    std::vector<StallWatch::Stall> stalls;  // at the last look
    bool keeps_checkpoints = false;
  };
  // As a server of pages.
  struct Holding {
    std::vector<ShardTable::JobFacts> jobs;
    // Gradients that changed nothing: of shares that were here already, of steps that were over.
    uint64_t ignored_covered = 0;
    uint64_t ignored_finished = 0;
    uint64_t memory_bytes = 0;
    uint64_t memory_limit = 0;  // 0: none
    // Of what peers make this process hold, on top of what jobs are planned to.
    uint64_t budget_bytes = 0;
    uint64_t budget_used_bytes = 0;
    uint64_t planned_bytes = 0;
  };
  std::optional<Coordinating> coordinating;
  std::optional<Holding> holding;
};

// Of jobs that have not ended, at most this many have series of their own: the newest.
inline constexpr int kMaxJobSeries = 100;

void AddServerMetrics(const ServerSnapshot& snapshot, const Counters& counters, MetricPage* page);

// Members for /statusz.
void AddServerStatus(const ServerSnapshot& snapshot, const Counters& counters,
                     nlohmann::json* status);

}  // namespace sangam

#endif  // SANGAM_SERVER_SERVER_METRICS_H_
