#ifndef SANGAM_COMMON_DATA_IMAGE_LABEL_H_
#define SANGAM_COMMON_DATA_IMAGE_LABEL_H_

#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/data/sample_rules.h"
#include "common/model/label_kind.h"

namespace sangam {

// Files of images have one byte of label for each. It is a class, or for a loss over numbers the
// number itself: 0 and 1 for binary_cross_entropy.

inline uint32_t ImageLabel(LabelKind kind, uint8_t byte) {
  if (kind == LabelKind::kClass) return byte;
  const float number = byte;
  uint32_t word = 0;
  std::memcpy(&word, &number, sizeof(word));
  return word;
}

// Whether a loss over numbers takes the label; classes are compared with the model's outputs
// elsewhere, all together.
inline absl::Status CheckImageLabel(const SampleRules& rules, uint8_t byte) {
  if (!rules.unit_targets || byte <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("found ", byte, ", expected 0 or 1, as binary_cross_entropy wants it"));
}

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_IMAGE_LABEL_H_
