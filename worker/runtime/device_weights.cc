#include "worker/runtime/device_weights.h"

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

namespace sangam {

DeviceWeights::DeviceWeights(const std::map<uint32_t, Matrix>& places) {
  for (const auto& [segment, place] : places) segments_[segment].place = place;
}

absl::StatusOr<const float*> DeviceWeights::Bring(uint32_t segment, uint64_t step,
                                                  const float* host, Backend* backend) {
  const auto found = segments_.find(segment);
  if (found == segments_.end()) {
    return absl::InternalError(
        absl::StrCat("weights of segment ", segment, " have no place on the device"));
  }
  Segment& entry = found->second;
  MutexLock lock(&entry.mutex);
  if (entry.step.has_value() && *entry.step > step) {
    return absl::InternalError(absl::StrCat("weights of step ", step, " of segment ", segment,
                                            " asked for when those of step ", *entry.step,
                                            " are on the device"));
  }
  if (entry.step != step) {
    ASSIGN_OR_RETURN(entry.here, backend->UploadBeside(host, entry.place, /*after=*/nullptr));
    entry.step = step;
  }
  RETURN_IF_ERROR(backend->WaitFor(*entry.here));
  return entry.place.data;
}

}  // namespace sangam
