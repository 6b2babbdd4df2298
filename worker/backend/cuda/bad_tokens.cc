#include "worker/backend/cuda/bad_tokens.h"

#include <cuda_runtime.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/lane.h"
#include "worker/backend/cuda/lookup.h"

namespace sangam {

using cuda_kernels::BadToken;

absl::Status CudaBadTokens::Clear() {
  return lane_->Check(cudaMemsetAsync(on_device_.data(), 0, sizeof(BadToken), lane_->compute()),
                      "clearing a report of tokens");
}

absl::Status CudaBadTokens::MakeRoom() {
  if (on_device_.data() != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(on_host_, PinnedBuffer::Allocate(sizeof(BadToken)));
  ASSIGN_OR_RETURN(on_device_, DeviceBuffer::Allocate(sizeof(BadToken)));
  return Clear();
}

absl::StatusOr<CudaBadTokens::Call> CudaBadTokens::Begin() {
  RETURN_IF_ERROR(MakeRoom());
  Expect();
  // After 2^32 calls: 0 is nobody's number.
  if (++calls_ == 0) ++calls_;
  return Call{calls_, static_cast<BadToken*>(on_device_.data())};
}

absl::Status CudaBadTokens::Check() {
  if (!unchecked_ || on_device_.data() == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(lane_->Check(cudaMemcpyAsync(on_host_.data(), on_device_.data(), sizeof(BadToken),
                                               cudaMemcpyDeviceToHost, lane_->compute()),
                               "a copy of a report of tokens"));
  RETURN_IF_ERROR(lane_->Synchronize(lane_->compute()));
  unchecked_ = false;
  const BadToken found = *static_cast<const BadToken*>(on_host_.data());
  if (found.call == 0) return absl::OkStatus();
  RETURN_IF_ERROR(Clear());
  return absl::InvalidArgumentError(absl::StrCat(
      found.backward != 0 ? "lookup backward" : "lookup", ": token ", found.index(), " is ",
      double{found.value()}, ", expected a whole number below ", found.table_rows));
}

}  // namespace sangam
