#ifndef SANGAM_COMMON_DATA_CIFAR_H_
#define SANGAM_COMMON_DATA_CIFAR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/dataset.h"
#include "common/data/input_file.h"
#include "common/data/normalisation.h"
#include "common/data/read_options.h"
#include "common/data/record_store.h"

namespace sangam {

// Images in CIFAR-10's binary format, each file gzipped or not: records of one byte of label (0 to
// 9) and 3 planes (red, green, blue) of 32 rows of 32 bytes. A sample is [32, 32, 3], the channels
// of a pixel side by side. The samples stay in memory as bytes.
class CifarDataset : public Dataset {
 public:
  static constexpr uint64_t kSide = 32;
  static constexpr uint64_t kChannels = 3;
  static constexpr uint64_t kRecordBytes = 1 + kSide * kSide * kChannels;

  // `files`: at least one. `normalisation`: of one or three channels. Every message names the file,
  // the offset, what was found and expected. Errors: InvalidArgument    a label above what is
  // allowed; bytes that are no whole record; no record
  //         DataLoss           the file is damaged
  //         ResourceExhausted  more memory is needed than allowed, or than can be had
  //         Cancelled          options.cancelled became true
  //         others             see InputFile::Open
  static absl::StatusOr<std::unique_ptr<CifarDataset>> Open(const std::vector<NamedFile>& files,
                                                            const Normalisation& normalisation,
                                                            const ReadOptions& options);

  uint64_t num_samples() const override { return records_.size(); }
  const std::vector<uint64_t>& sample_shape() const override { return sample_shape_; }
  uint64_t sample_elements() const override { return kRecordBytes - 1; }
  uint64_t labels_per_sample() const override { return 1; }
  LabelKind label_kind() const override { return label_kind_; }
  uint32_t num_classes() const override { return num_classes_; }
  uint64_t memory_bytes() const override { return records_.memory_bytes(); }
  absl::Status Read(uint64_t sample, float* row, uint32_t* labels) const override;

 private:
  CifarDataset(const Normalisation& normalisation, const ReadOptions& options);
  absl::Status AddFile(const NamedFile& named, const ReadOptions& options);

  const std::vector<uint64_t> sample_shape_ = {kSide, kSide, kChannels};
  const LabelKind label_kind_;
  std::array<std::vector<float>, kChannels> value_of_byte_;
  uint32_t num_classes_ = 0;
  // The label, then the pixels with their channels side by side.
  RecordStore records_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_CIFAR_H_
