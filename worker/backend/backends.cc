#include "worker/backend/backends.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/cpu_backend.h"
#include "worker/backend/cpu/gemm.h"
#include "worker/backend/precision.h"

namespace sangam {
namespace {

BackendKind Cpu() {
  BackendKind cpu;
  cpu.name = "cpu";
  cpu.create = [](int, Precision precision) { return CreateCpuBackend(precision); };
  cpu.is_native = [](int, Precision precision) {
    return precision == Precision::kFp32 || (precision == Precision::kBf16 && CpuMultipliesBf16());
  };
  cpu.describe = [](int) {
    BackendDevice device;
    device.compute_capability = CpuKernelSet();
    return device;
  };
  cpu.rows_stand_alone = [](int, Precision precision) { return CpuOrdersProducts(precision); };
  return cpu;
}

// By name. Changes before main only, so it needs no lock.
std::map<std::string, BackendKind, std::less<>>& Kinds() {
  static auto* const kinds = new std::map<std::string, BackendKind, std::less<>>({{"cpu", Cpu()}});
  return *kinds;
}

absl::StatusOr<const BackendKind*> Find(absl::string_view name) {
  const auto found = Kinds().find(name);
  if (found != Kinds().end()) return &found->second;
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown backend \"", name, "\", expected one of: ", absl::StrJoin(BackendNames(), ", "),
      name == "cuda" ? " (cuda is in builds with --config=cuda)" : ""));
}

}  // namespace

bool RegisterBackend(BackendKind kind) {
  std::string name = kind.name;
  Kinds()[std::move(name)] = std::move(kind);
  return true;
}

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : Kinds()) names.push_back(name);
  return names;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(absl::string_view name, Precision precision,
                                                       int device) {
  ASSIGN_OR_RETURN(const BackendKind* kind, Find(name));
  return kind->create(device, precision);
}

absl::StatusOr<BackendDevice> DescribeBackend(absl::string_view name, int device) {
  ASSIGN_OR_RETURN(const BackendKind* kind, Find(name));
  return kind->describe(device);
}

bool IsNative(absl::string_view name, Precision precision, int device) {
  const absl::StatusOr<const BackendKind*> kind = Find(name);
  return kind.ok() && (*kind)->is_native(device, precision);
}

bool RowsStandAlone(absl::string_view name, Precision precision, int device) {
  const absl::StatusOr<const BackendKind*> kind = Find(name);
  return kind.ok() && (*kind)->rows_stand_alone != nullptr &&
         (*kind)->rows_stand_alone(device, precision);
}

}  // namespace sangam
