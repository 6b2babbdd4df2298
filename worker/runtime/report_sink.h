#ifndef SANGAM_WORKER_RUNTIME_REPORT_SINK_H_
#define SANGAM_WORKER_RUNTIME_REPORT_SINK_H_

#include <cstdint>

#include "proto/cluster_service.pb.h"

namespace sangam {

// Takes what a job has to tell the coordinator. Thread-safe; never blocks; keeps the order.
class ReportSink {
 public:
  virtual ~ReportSink() = default;
  virtual void Report(uint64_t job, uint64_t generation, v1::JobReport report) = 0;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_REPORT_SINK_H_
