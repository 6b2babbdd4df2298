#include "server/core/event_log.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "proto/job_service.pb.h"

namespace sangam {

void EventLog::Append(v1::JobEvent event) {
  event.set_revision(++last_revision_);
  events_.push_back(std::move(event));
  DropOldest();
}

void EventLog::Restore(v1::JobEvent event) {
  if (event.revision() != last_revision_ + 1) events_.clear();
  last_revision_ = event.revision();
  events_.push_back(std::move(event));
  DropOldest();
}

std::vector<v1::JobEvent> EventLog::After(uint64_t after, size_t max) const {
  if (after >= last_revision_ || events_.empty()) return {};
  const uint64_t oldest = events_.front().revision();
  const uint64_t first = std::max(after + 1, oldest);
  const size_t begin = first - oldest;
  const size_t end = begin + std::min(max, events_.size() - begin);
  std::vector<v1::JobEvent> result(events_.begin() + begin, events_.begin() + end);
  if (!result.empty()) result.front().set_dropped(first - after - 1);
  return result;
}

void EventLog::SetCapacity(size_t capacity) {
  capacity_ = capacity;
  DropOldest();
}

void EventLog::DropOldest() {
  while (events_.size() > capacity_) events_.pop_front();
}

}  // namespace sangam
