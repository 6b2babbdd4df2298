#ifndef SANGAM_WORKER_BACKEND_CUDA_LANE_H_
#define SANGAM_WORKER_BACKEND_CUDA_LANE_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "worker/backend/cuda/recent_operations.h"

namespace sangam {

class CudaLane;

// A point in one of a lane's streams. Goes back to the lane, which must outlive it.
class CudaPoint {
 public:
  CudaPoint(CudaLane* lane, cudaEvent_t event, int64_t operations)
      : lane_(lane), event_(event), operations_(operations) {}
  CudaPoint(const CudaPoint&) = delete;
  CudaPoint& operator=(const CudaPoint&) = delete;
  ~CudaPoint();

  // On any thread. Errors: Internal  as CudaLane's
  absl::Status Wait() const;
  cudaEvent_t event() const { return event_; }

 private:
  CudaLane* lane_;
  cudaEvent_t event_;
  int64_t operations_;  // that are done at this point
};

// The streams of one backend on its device: one computes, one copies to the device, one from it.
// What the device says becomes a Status here. Once it has failed, all that is asked for fails at
// once with what it said first: nothing but a new process could go on with it.
//
// Not thread-safe, but for Wait and the end of points, and for failure().
class CudaLane {
 public:
  // Errors: FailedPrecondition, as OpenCudaDevice; ResourceExhausted; Internal
  static absl::StatusOr<std::unique_ptr<CudaLane>> Create(int device);
  ~CudaLane();

  int device() const { return device_; }
  int compute_major() const { return compute_major_; }
  cudaStream_t compute() const { return compute_; }
  cudaStream_t upload() const { return upload_; }
  cudaStream_t download() const { return download_; }

  // In front of the calls of each operation: the lane's device becomes the thread's. The name lives
  // as long as the program.
  absl::Status Begin(const char* operation);
  // Of several, which the device gets as one.
  absl::Status Begin(const std::vector<const char*>& operations);
  // What one of these calls gave.
  absl::Status Check(cudaError_t error, absl::string_view what);
  // Calls a function that puts work on the stream it is given, but not in a rehearsal.
  template <typename Work>
  absl::Status Launch(absl::string_view what, const Work& work) {
    if (rehearses_) return absl::OkStatus();
    return Check(work(compute_), what);
  }
  // As Begin and Launch.
  template <typename Work>
  absl::Status Run(const char* operation, const Work& work) {
    if (absl::Status ready = Begin(operation); !ready.ok()) return ready;
    return Launch(operation, work);
  }

  // In a rehearsal operations put nothing on the streams: what keeps memory for them only notes how
  // much they want.
  bool rehearses() const { return rehearses_; }
  void set_rehearses(bool rehearses) { rehearses_ = rehearses; }

  // While a graph is recorded nothing may be waited for, allocated or chosen: that would end the
  // recording, and with some versions of CUDA it fails. Whoever needs it answers with CannotRecord.
  bool records() const { return records_; }
  void set_records(bool records) { records_ = records; }
  // FailedPrecondition: names what was needed.
  static absl::Status CannotRecord(absl::string_view what);

  // Memory that operations use besides their matrices has another address from now on: what was
  // recorded with the old one must not be used any more.
  void NoteMove() { ++moves_; }
  int64_t moves() const { return moves_; }

  absl::StatusOr<std::unique_ptr<CudaPoint>> Record(cudaStream_t stream);

  // Waits for one stream, or for all of them.
  absl::Status Synchronize(cudaStream_t stream);
  absl::Status Synchronize();

  // What the device failed with; OK when it has not.
  absl::Status failure() const;

 private:
  friend class CudaPoint;

  explicit CudaLane(int device) : device_(device) {}
  absl::Status MakeStreams();
  absl::Status Wait(cudaEvent_t event, int64_t operations);
  absl::Status CheckWait(cudaError_t error, int64_t operations);
  void GiveBack(cudaEvent_t event);

  const int device_;
  int compute_major_ = 0;
  cudaStream_t compute_ = nullptr;
  cudaStream_t upload_ = nullptr;
  cudaStream_t download_ = nullptr;
  bool rehearses_ = false;
  bool records_ = false;
  int64_t moves_ = 0;

  mutable Mutex mutex_;
  RecentOperations operations_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<cudaEvent_t> free_events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_LANE_H_
