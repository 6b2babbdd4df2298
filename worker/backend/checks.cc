#include "worker/backend/checks.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/backend/views.h"

namespace sangam {

std::string ShapeText(ConstMatrix matrix) {
  return absl::StrCat("[", matrix.rows, ", ", matrix.cols, "]");
}

absl::Status CheckView(absl::string_view operation, absl::string_view name, ConstMatrix matrix) {
  if (matrix.rows < 0 || matrix.cols < 0) {
    return absl::InvalidArgumentError(absl::StrCat(operation, ": ", name, " is ", ShapeText(matrix),
                                                   ", expected sizes of at least 0"));
  }
  if (matrix.data == nullptr && matrix.size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(operation, ": ", name, " ", ShapeText(matrix), " has no memory"));
  }
  return absl::OkStatus();
}

absl::Status CheckShape(absl::string_view operation, absl::string_view name, ConstMatrix matrix,
                        int64_t rows, int64_t cols) {
  if (matrix.rows != rows || matrix.cols != cols) {
    return absl::InvalidArgumentError(absl::StrCat(operation, ": ", name, " is ", ShapeText(matrix),
                                                   ", expected [", rows, ", ", cols, "]"));
  }
  return CheckView(operation, name, matrix);
}

namespace {

bool Overlap(ConstMatrix x, ConstMatrix y) {
  if (x.size() == 0 || y.size() == 0) return false;
  // The order of unrelated pointers is defined by std::less alone.
  const std::less<> before;
  return before(x.data, y.data + y.size()) && before(y.data, x.data + x.size());
}

}  // namespace

absl::Status CheckApart(absl::string_view operation, absl::string_view name, ConstMatrix in,
                        Matrix out) {
  if (!Overlap(in, out)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operation, ": ", name, " overlaps the matrix that is written"));
}

absl::Status CheckElementwise(absl::string_view operation, absl::string_view name, ConstMatrix in,
                              Matrix out) {
  RETURN_IF_ERROR(CheckShape(operation, name, in, out.rows, out.cols));
  return in.data == out.data ? absl::OkStatus() : CheckApart(operation, name, in, out);
}

absl::Status CheckApartFromAll(absl::string_view operation,
                               std::initializer_list<std::pair<absl::string_view, ConstMatrix>> ins,
                               Matrix out) {
  for (const auto& [name, in] : ins) RETURN_IF_ERROR(CheckApart(operation, name, in, out));
  return absl::OkStatus();
}

absl::Status CheckHostPointer(absl::string_view operation, const void* host, ConstMatrix matrix) {
  if (host != nullptr || matrix.size() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operation, ": no host memory for ", ShapeText(matrix)));
}

absl::Status CheckEpsilon(absl::string_view operation, float epsilon) {
  if (epsilon >= 0 && std::isfinite(epsilon)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operation, ": epsilon is ", epsilon, ", expected a number of at least 0"));
}

}  // namespace sangam
