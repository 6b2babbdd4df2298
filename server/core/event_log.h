#ifndef SANGAM_SERVER_CORE_EVENT_LOG_H_
#define SANGAM_SERVER_CORE_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "proto/job_service.pb.h"

namespace sangam {

// The newest events of one job, numbered from 1. Pure and not thread-safe.
class EventLog {
 public:
  // Keeps at most `capacity` events, at least 1; older ones are dropped.
  explicit EventLog(size_t capacity) : capacity_(capacity) {}

  // Numbers the event and keeps it.
  void Append(v1::JobEvent event);

  // Takes an event that was numbered before, of an earlier process; in the order of their numbers.
  // When some between it and the one before are missing, those before are dropped.
  void Restore(v1::JobEvent event);

  // The oldest `max` of the events with a revision above `after`. The first of them says in
  // `dropped` how many between `after` and itself are gone.
  std::vector<v1::JobEvent> After(uint64_t after, size_t max) const;

  // Changes how many events are kept, and drops what is over it.
  void SetCapacity(size_t capacity);

  // Revision of the newest event; 0: there was none yet.
  uint64_t last_revision() const { return last_revision_; }
  // Revision of the oldest event that is kept; last_revision() + 1 when there is none.
  uint64_t first_revision() const { return last_revision_ + 1 - events_.size(); }
  // REQUIRES: not empty.
  const v1::JobEvent& newest() const { return events_.back(); }
  size_t size() const { return events_.size(); }

 private:
  void DropOldest();

  size_t capacity_;
  uint64_t last_revision_ = 0;
  // Revisions follow one another without gaps up to last_revision_.
  std::deque<v1::JobEvent> events_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_EVENT_LOG_H_
