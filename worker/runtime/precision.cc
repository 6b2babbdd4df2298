#include "worker/runtime/precision.h"

#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "worker/backend/backends.h"
#include "worker/backend/precision.h"

namespace sangam {

Precision ToPrecision(v1::Precision precision) {
  return precision == v1::BF16 ? Precision::kBf16 : Precision::kFp32;
}

std::vector<v1::Precision> NativePrecisions(absl::string_view backend) {
  std::vector<v1::Precision> native;
  for (const v1::Precision precision : {v1::FP32, v1::BF16}) {
    if (IsNative(backend, ToPrecision(precision))) native.push_back(precision);
  }
  return native;
}

}  // namespace sangam
