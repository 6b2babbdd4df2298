#include "worker/backend/memory_source.h"

#include <cstdint>
#include <limits>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/backend/backend.h"

namespace sangam {
namespace {

class NoMemory : public BackendMemory {
 public:
  explicit NoMemory(int64_t size) : BackendMemory(nullptr, size) {}
};

}  // namespace

MemorySource MemorySource::Counting(int64_t* elements) {
  MemorySource source;
  source.elements_ = elements;
  return source;
}

absl::StatusOr<std::unique_ptr<BackendMemory>> MemorySource::Allocate(int64_t num_elements) const {
  if (elements_ == nullptr) return backend_->Allocate(num_elements);
  constexpr int64_t kUnit = Backend::kAllocationElements;
  // Bytes of it have to be counted too.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 8;
  if (num_elements < 0 || num_elements > kMost - *elements_ - kUnit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(num_elements, " elements on top of ", *elements_, " do not fit any memory"));
  }
  *elements_ += (num_elements + kUnit - 1) / kUnit * kUnit;
  return std::make_unique<NoMemory>(num_elements);
}

}  // namespace sangam
