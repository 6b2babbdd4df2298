#include "common/plan/batch_cut.h"

#include <algorithm>
#include <cstdint>

#include "common/base/check.h"

namespace sangam {

IndexRange EvenPart(uint64_t total, uint64_t parts, uint64_t part) {
  SANGAM_CHECK(part < parts);
  // floor(total * i / parts); the product alone would overflow 64 bits.
  const uint64_t quotient = total / parts;
  const uint64_t remainder = total % parts;
  const auto bound = [&](uint64_t i) {
    return quotient * i +
           static_cast<uint64_t>(static_cast<unsigned __int128>(remainder) * i / parts);
  };
  return {bound(part), bound(part + 1)};
}

IndexRange BatchCut::BatchSamples(uint64_t step) const {
  const uint64_t first = step % StepsPerEpoch() * batch_size;
  return {first, std::min(first + batch_size, training_samples)};
}

IndexRange BatchCut::MicroBatch(uint64_t step, uint32_t micro_batch) const {
  return EvenPart(BatchSamples(step).size(), micro_batches, micro_batch);
}

IndexRange BatchCut::ShareMicroBatches(uint32_t share) const {
  return EvenPart(micro_batches, shares, share);
}

uint64_t BatchCut::MaxMicroBatchSize() const {
  return (batch_size + micro_batches - 1) / micro_batches;
}

IndexRange EvaluationChunk(uint64_t test_samples, uint64_t chunk_size, uint64_t chunk) {
  SANGAM_CHECK(chunk < NumEvaluationChunks(test_samples, chunk_size));
  const uint64_t first = chunk * chunk_size;
  return {first, std::min(first + chunk_size, test_samples)};
}

uint64_t NumEvaluationChunks(uint64_t test_samples, uint64_t chunk_size) {
  SANGAM_CHECK(chunk_size > 0);
  return test_samples / chunk_size + (test_samples % chunk_size != 0 ? 1 : 0);
}

}  // namespace sangam
