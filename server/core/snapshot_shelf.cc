#include "server/core/snapshot_shelf.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace sangam {

std::vector<uint64_t> SnapshotShelf::Want(const std::vector<uint64_t>& steps) {
  std::map<uint64_t, Entry> kept;
  std::set<uint64_t> removed;
  std::vector<uint64_t> open;
  for (size_t i = 0; i < std::min(steps.size(), kMaxSteps); ++i) {
    const uint64_t step = steps[i];
    if (removed_.count(step) > 0) {
      removed.insert(step);
      continue;
    }
    open.push_back(step);
    Entry& entry = kept[step];
    if (const auto found = steps_.find(step); found != steps_.end()) {
      entry = std::move(found->second);
    } else {
      entry.pages.resize(num_pages_);
      entry.missing = num_pages_;
    }
  }
  steps_ = std::move(kept);
  removed_ = std::move(removed);
  return open;
}

bool SnapshotShelf::Add(size_t page, PageState state) {
  const auto found = steps_.find(state.step);
  if (found == steps_.end() || found->second.pages[page].has_value()) return false;
  found->second.pages[page] = std::move(state);
  return --found->second.missing == 0;
}

absl::StatusOr<std::vector<PageState>> SnapshotShelf::Get(uint64_t step) const {
  const auto found = steps_.find(step);
  if (found == steps_.end() || found->second.missing > 0) {
    return absl::NotFoundError(absl::StrCat("no snapshot of step ", step));
  }
  std::vector<PageState> pages;
  pages.reserve(num_pages_);
  for (const auto& page : found->second.pages) pages.push_back(*page);
  return pages;
}

void SnapshotShelf::Remove(uint64_t step) {
  if (steps_.erase(step) > 0) removed_.insert(step);
}

}  // namespace sangam
