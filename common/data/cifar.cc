#include "common/data/cifar.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/data/image_label.h"
#include "common/data/input_file.h"
#include "common/data/normalisation.h"
#include "common/data/read_options.h"

namespace sangam {
namespace {

constexpr uint64_t kPlane = CifarDataset::kSide * CifarDataset::kSide;
constexpr uint32_t kClasses = 10;

using Record = std::array<uint8_t, CifarDataset::kRecordBytes>;

// False at the end of the file.
absl::StatusOr<bool> ReadRecord(InputFile* file, Record* record) {
  size_t count = 0;
  while (count < record->size()) {
    ASSIGN_OR_RETURN(const size_t some,
                     file->ReadSome(record->size() - count, record->data() + count));
    if (some == 0) break;
    count += some;
  }
  if (count == 0 || count == record->size()) return count > 0;
  return absl::InvalidArgumentError(absl::StrCat(
      file->name(), ": found ", count, " bytes of a record at offset ", file->offset() - count,
      ", expected ", record->size(), ": a label and 3 x 32 x 32 bytes"));
}

}  // namespace

CifarDataset::CifarDataset(const Normalisation& normalisation, const ReadOptions& options)
    : label_kind_(options.rules.label_kind), records_(kRecordBytes, options.max_memory_bytes) {
  for (uint64_t c = 0; c < kChannels; ++c) value_of_byte_[c] = ValuesOfBytes(normalisation, c);
}

absl::StatusOr<std::unique_ptr<CifarDataset>> CifarDataset::Open(
    const std::vector<NamedFile>& files, const Normalisation& normalisation,
    const ReadOptions& options) {
  SANGAM_CHECK(!files.empty());
  std::unique_ptr<CifarDataset> dataset(new CifarDataset(normalisation, options));
  for (const NamedFile& file : files) RETURN_IF_ERROR(dataset->AddFile(file, options));
  if (dataset->num_samples() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(files.front().name,
                                                   ": found no record, expected at least one of ",
                                                   kRecordBytes, " bytes"));
  }
  return dataset;
}

absl::Status CifarDataset::AddFile(const NamedFile& named, const ReadOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file, InputFile::Open(named.path, named.name));
  if (!file->gzipped() && file->max_content_bytes() % kRecordBytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(named.name, ": found ", file->max_content_bytes(),
                     " bytes, expected a multiple of ", kRecordBytes, ", the size of a record"));
  }
  Record record = {};
  for (;;) {
    RETURN_IF_ERROR(options.CheckCancelled(named.name));
    const uint64_t offset = file->offset();
    ASSIGN_OR_RETURN(const bool found, ReadRecord(file.get(), &record));
    if (!found) return absl::OkStatus();
    if (record[0] >= kClasses) {
      return absl::InvalidArgumentError(absl::StrCat(named.name, ": label at offset ", offset,
                                                     ": found ", record[0], ", expected less than ",
                                                     kClasses));
    }
    RETURN_IF_ERROR(CheckImageLabel(options.rules, record[0]), "%s: label at offset %d", named.name,
                    offset);
    ASSIGN_OR_RETURN(uint8_t * bytes, records_.Add(), "%s", named.name);
    *bytes++ = record[0];
    const uint8_t* const planes = record.data() + 1;
    for (uint64_t pixel = 0; pixel < kPlane; ++pixel) {
      for (uint64_t c = 0; c < kChannels; ++c) *bytes++ = planes[c * kPlane + pixel];
    }
    if (label_kind_ == LabelKind::kClass) {
      num_classes_ = std::max(num_classes_, uint32_t{record[0]} + 1);
    }
  }
}

absl::Status CifarDataset::Read(uint64_t sample, float* row, uint32_t* labels) const {
  if (sample >= num_samples()) {
    return absl::OutOfRangeError(
        absl::StrCat("sample ", sample, ": expected less than ", num_samples()));
  }
  const uint8_t* bytes = records_.At(sample);
  if (labels != nullptr) *labels = ImageLabel(label_kind_, *bytes);
  ++bytes;
  if (row == nullptr) return absl::OkStatus();
  for (uint64_t pixel = 0; pixel < kPlane; ++pixel) {
    for (uint64_t c = 0; c < kChannels; ++c) *row++ = value_of_byte_[c][*bytes++];
  }
  return absl::OkStatus();
}

}  // namespace sangam
