#ifndef SANGAM_SERVER_CORE_SNAPSHOT_SHELF_H_
#define SANGAM_SERVER_CORE_SNAPSHOT_SHELF_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/parameter_page.h"

namespace sangam {

// Collects the copies that the pages of one job on this server make of themselves at the steps that
// are wanted, and keeps those of a step that are complete until they have been read or the step is
// wanted no more. Pure and not thread-safe.
class SnapshotShelf {
 public:
  // Steps that are kept at once; of longer lists the first.
  static constexpr size_t kMaxSteps = 2;

  explicit SnapshotShelf(size_t num_pages) : num_pages_(num_pages) {}

  // Lets go of all other steps. Returns those that pages are to copy at: not those that were read.
  std::vector<uint64_t> Want(const std::vector<uint64_t>& steps);

  // Page `page` (less than the number of pages) is at a step. Returns whether all pages have come
  // now. What is not wanted, or came before, changes nothing.
  bool Add(size_t page, PageState state);

  // By page.
  // Errors: NotFound  not all pages of the step are here (any more)
  absl::StatusOr<std::vector<PageState>> Get(uint64_t step) const;

  // The step has been read.
  void Remove(uint64_t step);

 private:
  struct Entry {
    std::vector<std::optional<PageState>> pages;
    size_t missing = 0;
  };

  const size_t num_pages_;
  std::map<uint64_t, Entry> steps_;
  std::set<uint64_t> removed_;  // wanted still, but read
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_SNAPSHOT_SHELF_H_
