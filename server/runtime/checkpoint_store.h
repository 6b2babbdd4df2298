#ifndef SANGAM_SERVER_RUNTIME_CHECKPOINT_STORE_H_
#define SANGAM_SERVER_RUNTIME_CHECKPOINT_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/job_scope.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "server/core/checkpoint_layout.h"
#include "server/runtime/checkpoint_input.h"
#include "server/runtime/checkpoint_manifest.h"
#include "server/runtime/checkpoint_output.h"
#include "server/runtime/disk.h"

namespace sangam {

// All checkpoints of a coordinator: "<root>/<job>/step-<n>/". The disk is the only memory, so those
// of earlier processes and of forgotten jobs are here too. Thread-safe, as long as each job has one
// who writes.
class CheckpointStore {
 public:
  // A checkpoint, and what was passed over for it.
  struct Found {
    CheckpointManifest manifest;
    std::string folder;
    std::vector<std::string> skipped;  // why, newest first
  };

  // `disk` must outlive the store.
  explicit CheckpointStore(std::string root, Disk* disk = &Disk::Real())
      : root_(std::move(root)), disk_(*disk) {}

  // Those with a good manifest, ascending by job and step, without their specifications.
  // `id_or_name`: of the job (a name means the newest job of that name); empty: of all. What is not
  // in `scope` (also below) counts as not there.
  // Errors: NotFound  there is none of the job
  absl::StatusOr<std::vector<v1::Checkpoint>> List(absl::string_view id_or_name,
                                                   const JobScope& scope = JobScope()) const;

  // "JOB" or "JOB/STEP" with its specification. Of a JOB alone the newest one.
  // Errors: InvalidArgument  not of that form
  //         NotFound         no such checkpoint
  //         DataLoss         its manifest is damaged
  absl::StatusOr<v1::Checkpoint> Get(absl::string_view checkpoint,
                                     const JobScope& scope = JobScope()) const;

  // The same, read from end to end.
  // Errors: as Get; DataLoss  damaged; names file, offset, found and expected
  absl::StatusOr<v1::Checkpoint> Verify(absl::string_view checkpoint,
                                        const JobScope& scope = JobScope()) const;

  // What to resume from: of a JOB alone the newest one that is not damaged.
  // Errors: as Verify
  absl::StatusOr<Found> FindToResume(absl::string_view checkpoint,
                                     const JobScope& scope = JobScope()) const;

  // The same without reading more than the manifest.
  // Errors: as Get
  absl::StatusOr<Found> Find(absl::string_view checkpoint) const;

  absl::StatusOr<std::unique_ptr<CheckpointInput>> OpenInput(uint64_t job, uint64_t step) const;
  // Errors: ResourceExhausted  the disk has no room for it; others as the system says
  absl::StatusOr<std::unique_ptr<CheckpointOutput>> BeginOutput(CheckpointManifest manifest,
                                                                CheckpointLayout layout) const;

  // Of one job, ascending.
  std::vector<v1::CheckpointSummary> SummariesOf(uint64_t job) const;

  // Removes what a job keeps no longer when the checkpoint of step `written` has just been written:
  // all but the newest `keep`, and at least one, and those of the steps `needed`. One that does not
  // even open is not counted; nor are later ones, which the job passed over when it went back: they
  // stay until it writes them anew.
  absl::Status Prune(uint64_t job, uint32_t keep, uint64_t written,
                     const std::set<uint64_t>& needed = {}) const;
  absl::Status RemoveJob(uint64_t job) const;

  // Removes what a process that was killed had not written or removed to the end; one that had made
  // room for another that did not come is there again. To be called before anything is written.
  absl::Status RemoveLeftovers() const;

  // Those that have a folder here, ascending.
  std::vector<uint64_t> Jobs() const;
  // The largest number of a job with a folder here; 0: none.
  uint64_t LargestJob() const;

 private:
  struct Name {
    uint64_t job = 0;
    std::optional<uint64_t> step;
  };

  std::string JobFolder(uint64_t job) const;
  std::string Folder(uint64_t job, uint64_t step) const;
  std::vector<uint64_t> Steps(uint64_t job) const;  // ascending; complete folders
  // RemoveLeftovers of one job. Nobody may write or prune there.
  absl::Status RemoveLeftoversIn(const std::string& folder) const;
  // The first manifest of the job that is good: name and owner are the same in all.
  std::optional<CheckpointManifest> AnyManifest(uint64_t job) const;
  absl::StatusOr<uint64_t> FindJob(absl::string_view id_or_name, const JobScope& scope) const;
  absl::StatusOr<Name> Parse(absl::string_view checkpoint, const JobScope& scope) const;
  // The one that is meant; of a job alone the newest.
  absl::StatusOr<Name> NameOf(absl::string_view checkpoint, const JobScope& scope) const;

  const std::string root_;
  Disk& disk_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_CHECKPOINT_STORE_H_
