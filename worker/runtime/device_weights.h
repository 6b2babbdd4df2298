#ifndef SANGAM_WORKER_RUNTIME_DEVICE_WEIGHTS_H_
#define SANGAM_WORKER_RUNTIME_DEVICE_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

namespace sangam {

// One copy of a worker's weights in the memory of its device, which the lanes share: the first one
// that needs a segment at a step has it uploaded beside the computation, the others wait for that.
//
// It is overwritten in place, like SegmentStore's, and by the same rule nobody reads what is
// replaced: weights of step t + 1 come only when the gradient of the segment's last use at step t
// has been emitted by every lane, and on a device that is when its download is done. The download
// waits for all that the lane had asked for before it: for the upload of step t, whoever began it,
// and for every operation that read these weights. For the same reason the upload from the store's
// buffer is done before that is overwritten. (Where a share has no samples its zeros take the same
// way.) Rounds without gradients end with Synchronize. Thread-safe.
class DeviceWeights {
 public:
  // `places`: by segment; in the device's memory, which outlives this.
  explicit DeviceWeights(const std::map<uint32_t, Matrix>& places);

  // The weights of `segment` at `step`, which are at `host` and stay there until the next step's
  // are expected. What `backend`, the caller's, is asked for from now on finds them at the result.
  // Errors: as Backend::UploadBeside; Internal  a segment without a place, or a step that is over
  absl::StatusOr<const float*> Bring(uint32_t segment, uint64_t step, const float* host,
                                     Backend* backend);

 private:
  struct Segment {
    Mutex mutex;
    Matrix place;  // does not change
    std::optional<uint64_t> step
        ABSL_GUARDED_BY(mutex);  // whose weights are there, or on their way
    std::unique_ptr<const BackendEvent> here ABSL_GUARDED_BY(mutex);
  };
  std::map<uint32_t, Segment> segments_;  // does not change
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_DEVICE_WEIGHTS_H_
