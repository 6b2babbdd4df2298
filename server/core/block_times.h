#ifndef SANGAM_SERVER_CORE_BLOCK_TIMES_H_
#define SANGAM_SERVER_CORE_BLOCK_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/cluster_service.pb.h"
#include "proto/model.pb.h"

namespace sangam {

// How long blocks took on workers, kept for jobs to come: a block that computes the same on inputs
// of the same shape and the same unit (UnitOf) will take as long again, whatever its name and
// model. Blocks that need no gradient of their input, such as the first, are kept apart from those
// that do.
//
// Pure and not thread-safe. Bounded: of more blocks than `capacity` those measured longest ago are
// forgotten.
class BlockTimes {
 public:
  explicit BlockTimes(size_t capacity = 4096) : capacity_(capacity) {}

  // Whether a worker's report fits its model.
  // Errors: InvalidArgument  block or times; names what was found and expected
  static absl::Status Check(const v1::BlockTimesReport& report, const v1::ModelSpec& model);

  // Keeps what a worker measured; what was known of the same blocks is replaced.
  // REQUIRES: Check was OK; `layout` is the model's.
  void Add(const v1::BlockTimesReport& report, const v1::ModelSpec& model,
           const v1::ModelLayout& layout, absl::string_view unit);

  // What is known of the blocks of a model, as if measured on it, by block.
  // REQUIRES: `layout` is the model's.
  std::vector<v1::BlockTime> Find(const v1::ModelSpec& model, const v1::ModelLayout& layout,
                                  absl::string_view unit) const;

  size_t size() const { return times_.size(); }

 private:
  struct Entry {
    v1::BlockTime time;
    uint64_t measured = 0;  // key of by_age_
  };

  const size_t capacity_;
  uint64_t last_measured_ = 0;
  std::map<uint64_t, Entry> times_;      // by fingerprint
  std::map<uint64_t, uint64_t> by_age_;  // fingerprints, the one measured longest ago first
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_BLOCK_TIMES_H_
