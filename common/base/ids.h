#ifndef SANGAM_COMMON_BASE_IDS_H_
#define SANGAM_COMMON_BASE_IDS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace sangam {

// An integer with a meaning: ids of different meanings do not convert into one another.
template <typename Tag, typename Integer>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(Integer value) : value_(value) {}
  constexpr Integer value() const { return value_; }

  friend constexpr bool operator==(StrongId a, StrongId b) { return a.value_ == b.value_; }
  friend constexpr bool operator!=(StrongId a, StrongId b) { return a.value_ != b.value_; }
  friend constexpr bool operator<(StrongId a, StrongId b) { return a.value_ < b.value_; }
  template <typename H>
  friend H AbslHashValue(H h, StrongId id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::string ToString(StrongId id) { return absl::StrCat(id.value_); }

 private:
  Integer value_ = 0;
};

// Number of a job; counted from 1, 0 is none.
using JobId = StrongId<struct JobIdTag, uint64_t>;

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_IDS_H_
