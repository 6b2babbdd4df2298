#ifndef SANGAM_COMMON_PLAN_BATCH_CUT_H_
#define SANGAM_COMMON_PLAN_BATCH_CUT_H_

#include <cstdint>

// How steps, batches, micro-batches and shares cut the samples. All of it follows from the job
// alone, never from the cluster, because the cut decides the arithmetic.
namespace sangam {

// Items [begin, end).
struct IndexRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
  friend bool operator==(IndexRange a, IndexRange b) {
    return a.begin == b.begin && a.end == b.end;
  }
};

// Part `part` of [0, total) cut into `parts` runs whose sizes differ by at most one, exact for any
// 64-bit total.
// REQUIRES: part < parts.
IndexRange EvenPart(uint64_t total, uint64_t parts, uint64_t part);

// The cut of a job's batches.
struct BatchCut {
  uint64_t batch_size = 1;
  uint32_t micro_batches = 1;     // M
  uint32_t shares = 1;            // S <= M
  uint64_t training_samples = 1;  // of one epoch, > 0

  // Steps of one epoch; its last batch may be smaller than the others.
  uint64_t StepsPerEpoch() const { return (training_samples + batch_size - 1) / batch_size; }
  uint64_t EpochOf(uint64_t step) const { return step / StepsPerEpoch(); }

  // Positions, within the epoch's order of samples, of the batch of `step`.
  IndexRange BatchSamples(uint64_t step) const;

  // Positions within the batch of `step` (0 is the batch's first sample) of one micro-batch; may be
  // empty when the batch is smaller than M.
  IndexRange MicroBatch(uint64_t step, uint32_t micro_batch) const;

  // Micro-batches of one share.
  IndexRange ShareMicroBatches(uint32_t share) const;

  // Largest size of any micro-batch.
  uint64_t MaxMicroBatchSize() const;
};

// Samples [begin, end) of the test set that make chunk `chunk` of an evaluation. Chunks have
// `chunk_size` samples, the last one may have fewer.
IndexRange EvaluationChunk(uint64_t test_samples, uint64_t chunk_size, uint64_t chunk);
uint64_t NumEvaluationChunks(uint64_t test_samples, uint64_t chunk_size);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_BATCH_CUT_H_
