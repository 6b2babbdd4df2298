#ifndef SANGAM_SERVER_CORE_ASSIGNMENT_BOARD_H_
#define SANGAM_SERVER_CORE_ASSIGNMENT_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "proto/plan.pb.h"
#include "server/core/daemon_key.h"

namespace sangam {

// What each daemon must hold now. Level-triggered: the board says the whole of it, and a daemon
// that missed some changes misses nothing by reading the last.
//
// Pure and not thread-safe. Assignments are shared and never change, so that the daemons of a job
// share one and a reader can copy them while others go on.
class AssignmentBoard {
 public:
  using Assignments = std::map<uint64_t, std::shared_ptr<const v1::Assignment>>;  // by job

  struct Entry {
    // Differs from that of every earlier content, of this daemon or any other; at least 1.
    uint64_t revision = 0;
    Assignments assignments;
  };

  // Revisions from now on are larger. For a board that takes the place of one of an earlier
  // process, whose revisions daemons still know.
  void BeginAfter(uint64_t revision) { last_revision_ = revision; }

  // A daemon that holds nothing; also when it was there before.
  void Add(const DaemonKey& daemon);
  void Remove(const DaemonKey& daemon);

  // The daemon holds this from now on, in place of an assignment of the same job. Nothing happens
  // when the daemon is not there.
  void Assign(const DaemonKey& daemon, std::shared_ptr<const v1::Assignment> assignment);
  // The daemon lets go of the job.
  void Withdraw(const DaemonKey& daemon, uint64_t job);

  // Nullptr: the daemon is not there. Valid until the board changes.
  const Entry* Get(const DaemonKey& daemon) const;

  size_t size() const { return entries_.size(); }

 private:
  uint64_t last_revision_ = 0;
  std::map<DaemonKey, Entry> entries_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_ASSIGNMENT_BOARD_H_
