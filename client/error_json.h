#ifndef SANGAM_CLIENT_ERROR_JSON_H_
#define SANGAM_CLIENT_ERROR_JSON_H_

#include <string>

#include "absl/status/status.h"

namespace sangam {

// An error for programs, one object in one line without a newline:
//   {"error":{"code":"INVALID_ARGUMENT","message":"...","reason":"INVALID_JOB","metadata":{...},
//             "field_violations":[{"field":"...","description":"..."}],"retry_delay_seconds":1.0}}
// Of the last three only those that the error has. Always valid UTF-8.
std::string ErrorToJson(const absl::Status& status);

}  // namespace sangam

#endif  // SANGAM_CLIENT_ERROR_JSON_H_
