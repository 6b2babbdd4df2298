#ifndef SANGAM_WORKER_WORKER_METRICS_H_
#define SANGAM_WORKER_WORKER_METRICS_H_

#include <cstdint>
#include <string>

#include "common/admin/daemon_admin.h"
#include "common/base/refusal_counts.h"
#include "common/metrics/counters.h"
#include "common/metrics/metric_page.h"
#include "nlohmann/json.hpp"
#include "proto/cluster_service.pb.h"
#include "worker/report_counts.h"

namespace sangam {

// What a worker process shows of itself. docs/observability.md has the table of the metrics.
// Thread-safe.
class WorkerMetrics : public AdminSource {
 public:
  struct Facts {
    std::string backend;
    v1::DeviceFacts device;  // empty without one
    uint32_t threads = 0;
    double flops_per_second = 0;
    std::string address;
  };

  // All must outlive the object. `refusals`: of the worker's server.
  WorkerMetrics(Facts facts, const ReportCounts* reports, const Counters* counters,
                const RefusalCounts* refusals)
      : facts_(std::move(facts)), reports_(*reports), counters_(*counters), refusals_(*refusals) {}

  void AddMetrics(MetricPage* page) const override;
  void AddStatus(nlohmann::json* status) const override;

 private:
  const Facts facts_;
  const ReportCounts& reports_;
  const Counters& counters_;
  const RefusalCounts& refusals_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_WORKER_METRICS_H_
