#ifndef SANGAM_SERVER_RUNTIME_CHECKPOINT_WRITER_H_
#define SANGAM_SERVER_RUNTIME_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "proto/job.pb.h"
#include "server/core/control_plane.h"
#include "server/runtime/checkpoint_store.h"
#include "server/runtime/coordinator.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {

// Writes down the checkpoints that the coordinator has ready, one after the other, on a thread of
// its own: reads the pages of each server as they come into the files, then removes what the job
// keeps no longer.
class CheckpointWriter {
 public:
  // Reads the snapshot of a step from the server at an address.
  using ReadState = std::function<absl::Status(const std::string& address, uint64_t job,
                                               uint64_t step, const TakeStatePage& page)>;

  // Both must outlive the object.
  CheckpointWriter(Coordinator* coordinator, const CheckpointStore* store, ReadState read_state);
  // Stops.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Begins. Call once.
  void Start();

  // Waits for the checkpoint that is being written (ending `read_state` makes it short); there are
  // no more.
  void Stop();

  // Waits until nothing is being written and nothing is known to be ready. False: it took longer.
  bool AwaitIdle(absl::Duration timeout);

  // The coordinator may have one. Thread-safe, never blocks.
  void Wake();

 private:
  void Run();
  // All checkpoints of the job.
  absl::StatusOr<std::vector<v1::CheckpointSummary>> Write(
      const ControlPlane::CheckpointToWrite& checkpoint) const;

  Coordinator& coordinator_;
  const CheckpointStore& store_;
  const ReadState read_state_;
  Mutex mutex_;
  CondVar changed_;
  bool awake_ ABSL_GUARDED_BY(mutex_) = true;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_CHECKPOINT_WRITER_H_
