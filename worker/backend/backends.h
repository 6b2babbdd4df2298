#ifndef SANGAM_WORKER_BACKEND_BACKENDS_H_
#define SANGAM_WORKER_BACKEND_BACKENDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/backend/backend.h"
#include "worker/backend/precision.h"

// Which backends a program has: "cpu" always, others by what is linked into it.
namespace sangam {

// What a backend computes on.
struct BackendDevice {
  std::string name;                // "NVIDIA H200"; of the CPU empty
  uint64_t memory_bytes = 0;       // in all
  std::string compute_capability;  // "9.0"; of the CPU its kernel set, "AVX2"
  std::string driver;              // the newest CUDA that the driver supports, "13.0"
  std::string runtime;             // the CUDA that the program was built with
};

struct BackendKind {
  std::string name;
  // A backend for one lane on device number `device`.
  std::function<absl::StatusOr<std::unique_ptr<Backend>>(int device, Precision precision)> create;
  // As IsNative.
  std::function<bool(int device, Precision precision)> is_native;
  std::function<absl::StatusOr<BackendDevice>(int device)> describe;
  // As RowsStandAlone; none: they do not.
  std::function<bool(int device, Precision precision)> rows_stand_alone;
};

// Adds a backend to the program's. Called before main, by what defines it. The result is true, to
// be kept in a constant.
bool RegisterBackend(BackendKind kind);

// The backends of this program, in alphabetical order.
std::vector<std::string> BackendNames();

// A new backend, for one lane.
// Errors: InvalidArgument     unknown name; lists the known ones
//         FailedPrecondition  the machine has no such device; says why
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(absl::string_view name,
                                                       Precision precision = Precision::kFp32,
                                                       int device = 0);

// What the backend computes on. Errors: as CreateBackend.
absl::StatusOr<BackendDevice> DescribeBackend(absl::string_view name, int device = 0);

// Whether the backend multiplies numbers of `precision` by itself on this machine. Where it does
// not, it computes the same with binary32 products, no faster; sums may then have another order, so
// that only machines that answer alike give the same bits.
bool IsNative(absl::string_view name, Precision precision, int device = 0);

// Backend::rows_stand_alone() of such a backend.
bool RowsStandAlone(absl::string_view name, Precision precision, int device = 0);

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_BACKENDS_H_
