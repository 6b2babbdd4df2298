#ifndef SANGAM_COMMON_DATA_DATASET_H_
#define SANGAM_COMMON_DATA_DATASET_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/model/label_kind.h"

namespace sangam {

// Samples with labels, addressed by number. Immutable, so any number of threads may read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // At least 1.
  virtual uint64_t num_samples() const = 0;
  // Shape of one sample, without the batch dimension; all > 0.
  virtual const std::vector<uint64_t>& sample_shape() const = 0;
  // Product of the shape.
  virtual uint64_t sample_elements() const = 0;
  // Labels of one sample: 1, or one for each position of a sequence.
  virtual uint64_t labels_per_sample() const = 0;
  // What the labels' words mean.
  virtual LabelKind label_kind() const { return LabelKind::kClass; }
  // 1 + the largest label; 0 when labels are numbers.
  virtual uint32_t num_classes() const = 0;
  // Memory that the samples occupy, in bytes.
  virtual uint64_t memory_bytes() const = 0;

  // Writes sample `sample` (sample_elements() floats, row-major) to `row` and its
  // labels_per_sample() labels to `labels`. What is nullptr is not wanted.
  // Errors: OutOfRange  there is no such sample
  //         others      the sample could not be read; names the file
  virtual absl::Status Read(uint64_t sample, float* row, uint32_t* labels) const = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_DATASET_H_
