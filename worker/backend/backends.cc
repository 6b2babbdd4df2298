#include "worker/backend/backends.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/cpu_backend.h"
#include "worker/backend/cpu/gemm.h"
#include "worker/backend/precision.h"

namespace sangam {

std::vector<std::string> BackendNames() { return {"cpu"}; }

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(absl::string_view name,
                                                       Precision precision) {
  if (name == "cpu") return CreateCpuBackend(precision);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown backend \"", name, "\", expected one of: ", absl::StrJoin(BackendNames(), ", ")));
}

bool IsNative(absl::string_view name, Precision precision) {
  if (name != "cpu") return false;
  return precision == Precision::kFp32 || CpuMultipliesBf16();
}

}  // namespace sangam
