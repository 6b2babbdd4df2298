#ifndef SANGAM_COMMON_MODEL_LABEL_KIND_H_
#define SANGAM_COMMON_MODEL_LABEL_KIND_H_

#include "proto/model.pb.h"

namespace sangam {

// Labels are 32-bit words wherever they are stored or sent.
enum class LabelKind {
  kClass,   // the number of a class or token
  kNumber,  // the bits of a binary32 number
};

inline LabelKind LabelKindOf(const v1::LossSpec& loss) {
  return loss.has_mean_squared_error() || loss.has_binary_cross_entropy() ? LabelKind::kNumber
                                                                          : LabelKind::kClass;
}

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_LABEL_KIND_H_
