#ifndef SANGAM_COMMON_DATA_IDX_H_
#define SANGAM_COMMON_DATA_IDX_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/dataset.h"
#include "common/data/input_file.h"
#include "common/data/sample_rules.h"

namespace sangam {

// Images and labels in the IDX format of the MNIST family, each file gzipped or not:
//   images  00 00 08 03, then number of images, rows, columns (big-endian uint32), then one
//   unsigned
//           byte for each pixel, row after row
//   labels  00 00 08 01, then number of labels, then one unsigned byte for each label
// The samples stay in memory as bytes; a byte becomes (byte / 255 - mean) / stddev when it is read.
class IdxDataset : public Dataset {
 public:
  struct Options {
    NamedFile images;
    NamedFile labels;
    float mean = 0;
    float stddev = 1;  // > 0
    // What the loss makes of the labels.
    SampleRules rules;
    // Refuses data that would need more memory.
    uint64_t max_memory_bytes = std::numeric_limits<uint64_t>::max();
    // When it becomes true, Open ends soon with Cancelled. May be nullptr.
    const std::atomic<bool>* cancelled = nullptr;
  };

  // Reads both files. Every message names the file, the offset, what was found and expected.
  // Errors: InvalidArgument    another magic number; sizes that are 0, overflow or exceed what the
  //                            file can hold; as many labels as images are missing; a label that
  //                            the loss cannot take; bad mean, stddev
  //         DataLoss           the file is truncated, too long or damaged
  //         ResourceExhausted  more memory is needed than allowed, or than can be had
  //         Cancelled          `cancelled` became true
  //         others             see InputFile::Open
  static absl::StatusOr<std::unique_ptr<IdxDataset>> Open(const Options& options);

  uint64_t num_samples() const override { return num_samples_; }
  const std::vector<uint64_t>& sample_shape() const override { return sample_shape_; }
  uint64_t sample_elements() const override { return sample_elements_; }
  uint64_t labels_per_sample() const override { return 1; }
  LabelKind label_kind() const override { return label_kind_; }
  uint32_t num_classes() const override { return num_classes_; }
  uint64_t memory_bytes() const override { return num_samples_ * (sample_elements_ + 1); }
  absl::Status Read(uint64_t sample, float* row, uint32_t* labels) const override;

 private:
  IdxDataset() = default;

  uint64_t num_samples_ = 0;
  std::vector<uint64_t> sample_shape_;
  uint64_t sample_elements_ = 0;
  LabelKind label_kind_ = LabelKind::kClass;
  uint32_t num_classes_ = 0;
  std::unique_ptr<uint8_t[]> pixels_;  // num_samples_ * sample_elements_
  std::unique_ptr<uint8_t[]> labels_;  // num_samples_
  std::vector<float> value_of_byte_;   // 256
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_IDX_H_
