#include "worker/runtime/speed_probe.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/precision.h"

namespace sangam {
namespace {

// Of a typical layer, and short enough for several in the time there is.
constexpr int64_t kRows = 128;
constexpr int64_t kColumns = 256;

}  // namespace

absl::StatusOr<double> MeasureFlopsPerSecond(absl::string_view backend, int device,
                                             absl::Duration duration) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> unit,
                   CreateBackend(backend, Precision::kFp32, device));
  ASSIGN_OR_RETURN(const auto a, unit->Allocate(kRows * kColumns));
  ASSIGN_OR_RETURN(const auto b, unit->Allocate(kColumns * kColumns));
  ASSIGN_OR_RETURN(const auto c, unit->Allocate(kRows * kColumns));
  const Matrix left = {a->data(), kRows, kColumns};
  const Matrix right = {b->data(), kColumns, kColumns};
  // Neither zeros nor denormals, which some units treat in another time.
  RETURN_IF_ERROR(unit->Fill(0.5f, left));
  RETURN_IF_ERROR(unit->Fill(0.25f, right));
  GemmArguments product;
  product.a = left;
  product.b = right;
  product.c = {c->data(), kRows, kColumns};
  const double operations = 2.0 * kRows * kColumns * kColumns;
  const absl::Duration until = Clock::Real().Steady() + duration;
  double best = 0;
  // The first ones make code, and on a busy machine the time may pass while others run.
  for (int i = 0; i < 12 || Clock::Real().Steady() < until; ++i) {
    const absl::Duration begin = Clock::Real().Steady();
    RETURN_IF_ERROR(unit->Gemm(product));
    RETURN_IF_ERROR(unit->Synchronize());
    // A clock too coarse to see it is no reason to divide by 0.
    const absl::Duration took = std::max(Clock::Real().Steady() - begin, absl::Nanoseconds(100));
    best = std::max(best, operations / absl::ToDoubleSeconds(took));
  }
  return best;
}

}  // namespace sangam
