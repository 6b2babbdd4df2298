#ifndef SANGAM_WORKER_BACKEND_CHECKS_H_
#define SANGAM_WORKER_BACKEND_CHECKS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/backend/views.h"

// What the operations of Backend refuse alike. All name the operation and the matrix.
// Errors: InvalidArgument  what is checked does not hold
namespace sangam {

// "[rows, cols]".
std::string ShapeText(ConstMatrix matrix);

// Sizes of at least 0, and memory where there are elements.
absl::Status CheckView(absl::string_view operation, absl::string_view name, ConstMatrix matrix);

// A valid view of this shape.
absl::Status CheckShape(absl::string_view operation, absl::string_view name, ConstMatrix matrix,
                        int64_t rows, int64_t cols);

// An input that shares nothing with what is written.
absl::Status CheckApart(absl::string_view operation, absl::string_view name, ConstMatrix in,
                        Matrix out);

// An output apart from every input.
absl::Status CheckApartFromAll(absl::string_view operation,
                               std::initializer_list<std::pair<absl::string_view, ConstMatrix>> ins,
                               Matrix out);

// An input of an elementwise operation that writes `out`: a valid view of the same shape, apart
// from `out` or the very same matrix.
absl::Status CheckElementwise(absl::string_view operation, absl::string_view name, ConstMatrix in,
                              Matrix out);

absl::Status CheckHostPointer(absl::string_view operation, const void* host, ConstMatrix matrix);

// A number of at least 0.
absl::Status CheckEpsilon(absl::string_view operation, float epsilon);

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CHECKS_H_
