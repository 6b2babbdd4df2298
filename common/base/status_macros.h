#ifndef SANGAM_COMMON_BASE_STATUS_MACROS_H_
#define SANGAM_COMMON_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sangam {

// `status` with "<context>: " in front of its message; payloads are kept. OK stays OK.
inline absl::Status WithContext(const absl::Status& status, absl::string_view context) {
  if (status.ok() || context.empty()) return status;
  absl::Status result(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&result](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

namespace status_macros_internal {
inline absl::Status AddContext(const absl::Status& status) { return status; }
template <typename... Args>
absl::Status AddContext(const absl::Status& status, const absl::FormatSpec<Args...>& format,
                        const Args&... args) {
  return WithContext(status, absl::StrFormat(format, args...));
}
}  // namespace status_macros_internal
}  // namespace sangam

// Returns the status of `expr` when it is not OK. With a printf-like context:
//   RETURN_IF_ERROR(Open(path), "while reading %s", path);
#define RETURN_IF_ERROR(expr, ...)                                                        \
  do {                                                                                    \
    if (absl::Status sangam_status_ = (expr); !sangam_status_.ok()) {                     \
      return ::sangam::status_macros_internal::AddContext(sangam_status_, ##__VA_ARGS__); \
    }                                                                                     \
  } while (false)

// Declares or assigns `lhs` from the value of `expr`, or returns its status (with context):
//   ASSIGN_OR_RETURN(auto file, Open(path), "while reading %s", path);
#define ASSIGN_OR_RETURN(lhs, expr, ...) \
  SANGAM_ASSIGN_OR_RETURN_(SANGAM_CONCAT_(sangam_statusor_, __LINE__), lhs, expr, ##__VA_ARGS__)

#define SANGAM_CONCAT_INNER_(a, b) a##b
#define SANGAM_CONCAT_(a, b) SANGAM_CONCAT_INNER_(a, b)
#define SANGAM_ASSIGN_OR_RETURN_(name, lhs, expr, ...)                                 \
  auto name = (expr);                                                                  \
  if (!name.ok()) {                                                                    \
    return ::sangam::status_macros_internal::AddContext(name.status(), ##__VA_ARGS__); \
  }                                                                                    \
  lhs = std::move(name).value()

#endif  // SANGAM_COMMON_BASE_STATUS_MACROS_H_
