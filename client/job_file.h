#ifndef SANGAM_CLIENT_JOB_FILE_H_
#define SANGAM_CLIENT_JOB_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "proto/job.pb.h"

namespace sangam {

// Reads a job's specification in protobuf's text format, or in JSON when the name ends in ".json"
// or the text begins with '{'. Pure: `name` is the file's name, for messages.
//
// Errors: InvalidArgument  malformed; text format and JSON syntax as "name:line:column: message",
// an
//                          unknown field with the closest one
absl::StatusOr<v1::JobSpec> ParseJobFile(absl::string_view text, absl::string_view name);

// The same from a file of at most 16 MiB.
// Errors: as ParseJobFile and ReadFile
absl::StatusOr<v1::JobSpec> ReadJobFile(const std::string& path);

// Every string of a message must be UTF-8: the services refuse others without saying where they
// are. Errors: InvalidArgument  names the field
absl::Status CheckUtf8(const google::protobuf::Message& message);

}  // namespace sangam

#endif  // SANGAM_CLIENT_JOB_FILE_H_
