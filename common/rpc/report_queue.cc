#include "common/rpc/report_queue.h"

#include <cstddef>
#include <cstdint>

#include "proto/cluster_service.pb.h"

namespace sangam {
namespace {

constexpr int kMaxReportsInCall = 1024;
constexpr size_t kMaxBytesInCall = size_t{256} * 1024;

bool MayBeLost(const v1::JobReport& report) {
  return report.has_trace() || report.has_block_times() || report.has_log();
}

}  // namespace

bool ReportQueue::Add(uint64_t job, uint64_t generation, const v1::JobReport& report) {
  if (waiting_.size() >= max_reports_ / 2 && MayBeLost(report)) return true;
  if (waiting_.size() >= max_reports_) return false;
  waiting_.push_back({job, generation, report});
  return true;
}

v1::ReportRequest ReportQueue::Front() const {
  v1::ReportRequest request;
  request.set_job(waiting_.front().job);
  request.set_generation(waiting_.front().generation);
  size_t bytes = 0;
  for (const Waiting& waiting : waiting_) {
    bytes += waiting.report.ByteSizeLong();
    const bool full = request.report_size() >= kMaxReportsInCall ||
                      (request.report_size() > 0 && bytes > kMaxBytesInCall);
    if (full || waiting.job != request.job() || waiting.generation != request.generation()) break;
    *request.add_report() = waiting.report;
  }
  return request;
}

void ReportQueue::Remove(int count) { waiting_.erase(waiting_.begin(), waiting_.begin() + count); }

}  // namespace sangam
