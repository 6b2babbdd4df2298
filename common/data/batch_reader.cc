#include "common/data/batch_reader.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/data/batch_id.h"
#include "common/data/job_data.h"
#include "common/data/sampler.h"
#include "common/plan/batch_cut.h"
#include "proto/job.pb.h"

namespace sangam {

absl::Status BatchRows::Read(uint64_t row, float* inputs, uint32_t* labels) const {
  SANGAM_CHECK(row < count_);
  const uint64_t sample = order_.SampleAt(first_ + row);
  if (augmentation_ == nullptr || inputs == nullptr) return dataset_->Read(sample, inputs, labels);
  std::vector<float> image(dataset_->sample_elements());
  RETURN_IF_ERROR(dataset_->Read(sample, image.data(), labels));
  augmentation_->Apply(epoch_, sample, image.data(), inputs);
  return absl::OkStatus();
}

BatchReader::BatchReader(const v1::JobSpec& spec, const BatchCut& cut, const JobData* data)
    : seed_(spec.seed()), shuffle_(!spec.data().no_shuffle()), cut_(cut), data_(data) {}

absl::StatusOr<BatchRows> BatchReader::Find(const BatchId& id) const {
  if (id.evaluation) return FindChunk(id.index);
  if (id.index >= cut_.micro_batches) {
    return absl::OutOfRangeError(absl::StrCat("micro-batch ", id.index, " of step ", id.step,
                                              ": expected less than ", cut_.micro_batches));
  }
  const IndexRange part = cut_.MicroBatch(id.step, id.index);
  const uint64_t epoch = cut_.EpochOf(id.step);
  BatchRows rows(data_->train.get(),
                 shuffle_ ? Sampler::Shuffled(seed_, epoch, cut_.training_samples)
                          : Sampler::InOrder(cut_.training_samples),
                 cut_.BatchSamples(id.step).begin + part.begin, part.size());
  if (data_->augmentation.has_value()) rows.ChangeBy(*data_->augmentation, epoch);
  return rows;
}

absl::StatusOr<BatchRows> BatchReader::FindChunk(uint32_t chunk) const {
  const uint64_t chunks = NumEvaluationChunks(data_->test_samples(), max_rows());
  if (chunk >= chunks) {
    return absl::OutOfRangeError(
        absl::StrCat("chunk ", chunk, " of the test set: expected less than ", chunks));
  }
  const IndexRange range = EvaluationChunk(data_->test_samples(), max_rows(), chunk);
  return BatchRows(data_->test.get(), Sampler::InOrder(data_->test_samples()), range.begin,
                   range.size());
}

}  // namespace sangam
