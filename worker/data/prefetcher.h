#ifndef SANGAM_WORKER_DATA_PREFETCHER_H_
#define SANGAM_WORKER_DATA_PREFETCHER_H_

#include <cstddef>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/data/batch_reader.h"
#include "worker/data/batch_buffers.h"
#include "worker/data/batch_source.h"

namespace sangam {

// The batches of a worker that reads its data itself: one thread turns each lane's sequence into
// rows of floats and labels.
class Prefetcher final : public BatchSource {
 public:
  // Sets the memory aside and starts the thread, on which `sequence` is called.
  // REQUIRES: lanes, ahead and held are at least 1; the reader's data outlives the prefetcher.
  // Errors: InvalidArgument    the options contradict the data
  //         ResourceExhausted  the memory cannot be had
  static absl::StatusOr<std::unique_ptr<Prefetcher>> Start(const BatchOptions& options,
                                                           const BatchReader& reader,
                                                           BatchSequence sequence);
  ~Prefetcher() override;

  // BatchSource. Errors of Take: also BatchReader::Find's and Dataset::Read's.
  absl::StatusOr<Batch> Take(size_t lane, absl::Duration timeout) override;
  // The thread ends within a row's time.
  void Stop() override;

 private:
  Prefetcher(std::unique_ptr<BatchBuffers> buffers, const BatchReader& reader,
             BatchSequence sequence);
  void Work();
  void Prepare(const BatchBuffers::Target& target);
  absl::Status Fill(const BatchRows& rows, const BatchBuffers::Target& target);

  const std::unique_ptr<BatchBuffers> buffers_;
  const BatchReader reader_;
  const BatchSequence sequence_;
  std::thread thread_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_DATA_PREFETCHER_H_
