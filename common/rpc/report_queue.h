#ifndef SANGAM_COMMON_RPC_REPORT_QUEUE_H_
#define SANGAM_COMMON_RPC_REPORT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "proto/cluster_service.pb.h"

namespace sangam {

// Reports that wait to be delivered, in order. Not thread-safe.
class ReportQueue {
 public:
  explicit ReportQueue(size_t max_reports) : max_reports_(max_reports) {}

  // False: too many wait, the report is not taken. Reports that nothing depends on (traces, times,
  // lines of the log) are dropped as soon as half of the room is taken.
  bool Add(uint64_t job, uint64_t generation, const v1::JobReport& report);

  // The oldest reports of one job and generation, as many as travel in one call (1024, and 256 KiB
  // unless a single one is larger). They stay in the queue.
  // REQUIRES: not empty.
  v1::ReportRequest Front() const;

  // Takes out the oldest `count`.
  void Remove(int count);

  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    uint64_t job = 0;
    uint64_t generation = 0;
    v1::JobReport report;
  };

  size_t max_reports_;
  std::deque<Waiting> waiting_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_REPORT_QUEUE_H_
