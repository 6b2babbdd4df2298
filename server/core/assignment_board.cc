#include "server/core/assignment_board.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "proto/plan.pb.h"
#include "server/core/daemon_key.h"

namespace sangam {

void AssignmentBoard::Add(const DaemonKey& daemon) { entries_[daemon] = {++last_revision_, {}}; }

void AssignmentBoard::Remove(const DaemonKey& daemon) { entries_.erase(daemon); }

void AssignmentBoard::Assign(const DaemonKey& daemon,
                             std::shared_ptr<const v1::Assignment> assignment) {
  const auto found = entries_.find(daemon);
  if (found == entries_.end()) return;
  found->second.revision = ++last_revision_;
  found->second.assignments[assignment->plan().job()] = std::move(assignment);
}

void AssignmentBoard::Withdraw(const DaemonKey& daemon, uint64_t job) {
  const auto found = entries_.find(daemon);
  if (found == entries_.end() || found->second.assignments.erase(job) == 0) return;
  found->second.revision = ++last_revision_;
}

const AssignmentBoard::Entry* AssignmentBoard::Get(const DaemonKey& daemon) const {
  const auto found = entries_.find(daemon);
  return found == entries_.end() ? nullptr : &found->second;
}

}  // namespace sangam
