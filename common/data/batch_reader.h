#ifndef SANGAM_COMMON_DATA_BATCH_READER_H_
#define SANGAM_COMMON_DATA_BATCH_READER_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/augmentation.h"
#include "common/data/batch_id.h"
#include "common/data/dataset.h"
#include "common/data/job_data.h"
#include "common/data/sampler.h"
#include "common/plan/batch_cut.h"
#include "proto/job.pb.h"

namespace sangam {

// The samples of one micro-batch, in its order. Must not outlive its reader's data.
class BatchRows {
 public:
  // May be 0.
  uint64_t size() const { return count_; }

  // Writes row `row` as Dataset::Read does; training samples as the job's augmentation changes
  // them. REQUIRES: row < size().
  absl::Status Read(uint64_t row, float* inputs, uint32_t* labels) const;

 private:
  friend class BatchReader;
  BatchRows(const Dataset* dataset, Sampler order, uint64_t first, uint64_t count)
      : dataset_(dataset), order_(std::move(order)), first_(first), count_(count) {}
  void ChangeBy(const Augmentation& augmentation, uint64_t epoch) {
    augmentation_ = &augmentation;
    epoch_ = epoch;
  }

  const Dataset* dataset_;
  Sampler order_;
  uint64_t first_;  // position within the order
  uint64_t count_;
  const Augmentation* augmentation_ = nullptr;
  uint64_t epoch_ = 0;
};

// Finds the samples of a job's micro-batches and test chunks. It alone decides which sample stands
// where, for workers that read their data themselves and for a coordinator that serves it, so both
// train on the same bits. A value; immutable, may be used on several threads.
class BatchReader {
 public:
  // `spec`: defaults resolved. `data` is borrowed and must outlive the reader.
  // REQUIRES: cut.training_samples is data->train->num_samples().
  BatchReader(const v1::JobSpec& spec, const BatchCut& cut, const JobData* data);

  // Any training step has samples: the data begins anew with each epoch.
  // Errors: OutOfRange  no such micro-batch or chunk; names what was found and expected
  absl::StatusOr<BatchRows> Find(const BatchId& id) const;

  // Of any batch.
  uint64_t max_rows() const { return cut_.MaxMicroBatchSize(); }
  // Floats and labels of one sample.
  uint64_t input_elements() const { return data_->train->sample_elements(); }
  uint64_t labels_per_sample() const { return data_->train->labels_per_sample(); }

 private:
  absl::StatusOr<BatchRows> FindChunk(uint32_t chunk) const;

  uint64_t seed_;
  bool shuffle_;
  BatchCut cut_;
  const JobData* data_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_BATCH_READER_H_
