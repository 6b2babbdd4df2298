#include "worker/backend/cuda/scratch.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/lane.h"

namespace sangam {

absl::StatusOr<void*> CudaScratch::Get(int64_t bytes) {
  if (buffer_.bytes() >= bytes) return buffer_.data();
  if (lane_->rehearses()) {
    wanted_ = std::max(wanted_, bytes);
    return buffer_.data();
  }
  if (lane_->records()) return CudaLane::CannotRecord("operations need more memory");
  if (buffer_.bytes() > 0) {
    RETURN_IF_ERROR(lane_->Synchronize(lane_->compute()));
    const DeviceBuffer freed = std::move(buffer_);  // before there is the larger one
    lane_->NoteMove();
  }
  ASSIGN_OR_RETURN(buffer_, DeviceBuffer::Allocate(bytes));
  return buffer_.data();
}

}  // namespace sangam
