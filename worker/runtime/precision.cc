#include "worker/runtime/precision.h"

#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "worker/backend/backends.h"
#include "worker/backend/precision.h"

namespace sangam {

Precision ToPrecision(v1::Precision precision) {
  switch (precision) {
    case v1::BF16:
      return Precision::kBf16;
    case v1::TF32:
      return Precision::kTf32;
    default:
      return Precision::kFp32;
  }
}

std::vector<v1::Precision> NativePrecisions(absl::string_view backend, int device) {
  std::vector<v1::Precision> native;
  for (const v1::Precision precision : {v1::FP32, v1::BF16, v1::TF32}) {
    if (IsNative(backend, ToPrecision(precision), device)) native.push_back(precision);
  }
  return native;
}

}  // namespace sangam
