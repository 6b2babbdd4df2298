#include "common/data/idx.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/data/image_label.h"
#include "common/data/input_file.h"

namespace sangam {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;
// Between two looks at `cancelled`.
constexpr size_t kReadBytes = size_t{1024} * 1024;

absl::StatusOr<uint32_t> ReadBigEndian(InputFile* file) {
  std::array<uint8_t, 4> bytes = {};
  RETURN_IF_ERROR(file->Read(bytes.size(), bytes.data()));
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

// An open file whose header has been read.
struct OpenIdx {
  std::unique_ptr<InputFile> file;
  std::vector<uint64_t> dimensions;  // all > 0
  uint64_t payload_bytes = 0;        // their product
};

// The header says how much memory to set aside, so it must be plausible before it is believed.
absl::Status CheckSizes(OpenIdx* idx) {
  uint64_t total = 1;
  const std::string sizes = absl::StrJoin(idx->dimensions, " x ");
  for (size_t d = 0; d < idx->dimensions.size(); ++d) {
    if (idx->dimensions[d] == 0) {
      return absl::InvalidArgumentError(absl::StrCat(idx->file->name(), ": size at offset ",
                                                     4 + 4 * d, ": found 0, expected at least 1"));
    }
    if (__builtin_mul_overflow(total, idx->dimensions[d], &total)) {
      return absl::InvalidArgumentError(absl::StrCat(
          idx->file->name(), ": sizes at offset 4: ", sizes, " bytes overflow 64 bits"));
    }
  }
  const uint64_t header = idx->file->offset();
  const uint64_t limit = idx->file->max_content_bytes();
  if (limit < header || total > limit - header) {
    return absl::InvalidArgumentError(
        absl::StrCat(idx->file->name(), ": sizes at offset 4: ", sizes,
                     " bytes behind a header of ", header, " expected, but the file holds at most ",
                     limit, idx->file->gzipped() ? " uncompressed" : "", " bytes"));
  }
  idx->payload_bytes = total;
  return absl::OkStatus();
}

absl::StatusOr<OpenIdx> OpenHeader(const NamedFile& named, uint32_t magic, const char* what) {
  OpenIdx idx;
  ASSIGN_OR_RETURN(idx.file, InputFile::Open(named.path, named.name));
  ASSIGN_OR_RETURN(const uint32_t found, ReadBigEndian(idx.file.get()));
  if (found != magic) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: magic number at offset 0: found 0x%08x, expected 0x%08x (%s)",
                        named.name, found, magic, what));
  }
  for (uint32_t d = 0; d < (magic & 0xff); ++d) {
    ASSIGN_OR_RETURN(const uint32_t size, ReadBigEndian(idx.file.get()));
    idx.dimensions.push_back(size);
  }
  RETURN_IF_ERROR(CheckSizes(&idx));
  return idx;
}

absl::StatusOr<std::unique_ptr<uint8_t[]>> ReadPayload(OpenIdx* idx,
                                                       const std::atomic<bool>* cancelled) {
  // Not zeroed: only what the file really holds is ever touched.
  std::unique_ptr<uint8_t[]> bytes(new (std::nothrow) uint8_t[idx->payload_bytes]);
  if (bytes == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat(idx->file->name(), ": cannot allocate ", idx->payload_bytes, " bytes for it"));
  }
  uint64_t done = 0;
  while (done < idx->payload_bytes) {
    if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) {
      return absl::CancelledError(absl::StrCat("reading of ", idx->file->name(), " was cancelled"));
    }
    const size_t some = std::min<uint64_t>(kReadBytes, idx->payload_bytes - done);
    RETURN_IF_ERROR(idx->file->Read(some, bytes.get() + done));
    done += some;
  }
  RETURN_IF_ERROR(idx->file->ExpectEnd());
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<IdxDataset>> IdxDataset::Open(const Options& options) {
  if (!std::isfinite(options.mean)) {
    return absl::InvalidArgumentError(
        absl::StrCat("mean: found ", options.mean, ", expected a finite number"));
  }
  if (!(options.stddev > 0) || !std::isfinite(options.stddev)) {
    return absl::InvalidArgumentError(
        absl::StrCat("stddev: found ", options.stddev, ", expected a finite number above 0"));
  }
  ASSIGN_OR_RETURN(OpenIdx images,
                   OpenHeader(options.images, kImagesMagic, "unsigned bytes in 3 dimensions"));
  ASSIGN_OR_RETURN(OpenIdx labels,
                   OpenHeader(options.labels, kLabelsMagic, "unsigned bytes in 1 dimension"));
  if (labels.dimensions[0] != images.dimensions[0]) {
    return absl::InvalidArgumentError(absl::StrCat(
        labels.file->name(), ": number of labels at offset 4: found ", labels.dimensions[0],
        ", expected ", images.dimensions[0], ", the number of images in ", images.file->name()));
  }
  if (images.payload_bytes > options.max_memory_bytes ||
      labels.payload_bytes > options.max_memory_bytes - images.payload_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        images.file->name(), " and ", labels.file->name(), " need ", images.payload_bytes, " and ",
        labels.payload_bytes, " bytes of memory, allowed are ", options.max_memory_bytes));
  }
  std::unique_ptr<IdxDataset> dataset(new IdxDataset);
  ASSIGN_OR_RETURN(dataset->labels_, ReadPayload(&labels, options.cancelled));
  ASSIGN_OR_RETURN(dataset->pixels_, ReadPayload(&images, options.cancelled));
  dataset->num_samples_ = images.dimensions[0];
  dataset->sample_shape_ = {images.dimensions[1], images.dimensions[2]};
  dataset->sample_elements_ = images.dimensions[1] * images.dimensions[2];
  dataset->label_kind_ = options.rules.label_kind;
  const uint8_t* first = dataset->labels_.get();
  const uint8_t* largest = std::max_element(first, first + dataset->num_samples_);
  RETURN_IF_ERROR(CheckImageLabel(options.rules, *largest), "%s: label at offset %d",
                  options.labels.name, 8 + (largest - first));
  if (dataset->label_kind_ == LabelKind::kClass) dataset->num_classes_ = 1 + uint32_t{*largest};
  for (int byte = 0; byte < 256; ++byte) {
    dataset->value_of_byte_.push_back((static_cast<float>(byte) / 255.0f - options.mean) /
                                      options.stddev);
  }
  return dataset;
}

absl::Status IdxDataset::Read(uint64_t sample, float* row, uint32_t* labels) const {
  if (sample >= num_samples_) {
    return absl::OutOfRangeError(
        absl::StrCat("sample ", sample, ": expected less than ", num_samples_));
  }
  if (row != nullptr) {
    const uint8_t* pixels = pixels_.get() + sample * sample_elements_;
    const float* value = value_of_byte_.data();
    for (uint64_t e = 0; e < sample_elements_; ++e) row[e] = value[pixels[e]];
  }
  if (labels != nullptr) *labels = ImageLabel(label_kind_, labels_[sample]);
  return absl::OkStatus();
}

}  // namespace sangam
