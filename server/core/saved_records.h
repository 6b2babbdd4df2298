#ifndef SANGAM_SERVER_CORE_SAVED_RECORDS_H_
#define SANGAM_SERVER_CORE_SAVED_RECORDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace sangam {

// What a record holds: a serialized message. The numbers are on disk: never reuse one.
enum class RecordKind : uint8_t {
  kCoordinator = 1,  // SavedCoordinator; one
  kDaemon = 2,       // SavedDaemon; part: role and name
  kJob = 3,          // SavedJob; by job
  kStatus = 4,       // Job without spec, layout and progress; by job
  kProgress = 5,     // Progress; by job
  kEvent = 6,        // JobEvent; by job and revision
  kAssignment = 7,   // Assignment without spec and layout, of a job that daemons hold; by job
  kReport = 8,       // SavedReport; by job and step, part: which one
  kSkips = 9,        // SavedSkips, of a job that daemons hold and that has skipped steps; by job
  kLosses = 10,      // SavedLosses, of a job that has lost daemons; by job
};

struct RecordKey {
  RecordKind kind = RecordKind::kCoordinator;
  uint64_t job = 0;
  uint64_t number = 0;
  std::string part;

  friend bool operator<(const RecordKey& a, const RecordKey& b) {
    return std::tie(a.kind, a.job, a.number, a.part) < std::tie(b.kind, b.job, b.number, b.part);
  }
  friend bool operator==(const RecordKey& a, const RecordKey& b) {
    return std::tie(a.kind, a.job, a.number, a.part) == std::tie(b.kind, b.job, b.number, b.part);
  }
};

// "record 6 of job 3, number 17", for messages.
inline std::string ToString(const RecordKey& key) {
  return absl::StrCat("record ", static_cast<int>(key.kind), " of job ", key.job, ", number ",
                      key.number, key.part.empty() ? "" : ", ", key.part);
}

// All that is kept. A std::map, so that the records of a kind and job stand together, by number.
using SavedRecords = std::map<RecordKey, std::string>;

// What has changed: the new record, or nothing when it is gone. Later changes replace earlier ones
// of the same record, so changes that wait need no more room than the state itself.
using RecordChanges = std::map<RecordKey, std::optional<std::string>>;

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_SAVED_RECORDS_H_
