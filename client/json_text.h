#ifndef SANGAM_CLIENT_JSON_TEXT_H_
#define SANGAM_CLIENT_JSON_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "proto/job_service.pb.h"

namespace sangam {

// A message in protobuf's JSON mapping, on one line or indented, without a line break at the end.
// Field names are those of the .proto files; fields without presence are written even when zero, so
// that programs need no defaults. (64-bit integers are strings in this mapping.)
// Errors: InvalidArgument  the message cannot be written so, for example a time before the year 1
absl::StatusOr<std::string> ToJsonLine(const google::protobuf::Message& message);
absl::StatusOr<std::string> ToJsonIndented(const google::protobuf::Message& message);

// One line of metrics.jsonl for a completed step or an evaluation; "" for other events. Numbers are
// JSON numbers; one that is not finite is null. Keys:
//   kind "step":        time, step, epoch, loss, samples, samples_per_second
//   kind "evaluation":  time, step, accuracy, loss, correct, samples
// `time` is RFC 3339 in UTC.
std::string MetricsLine(const v1::JobEvent& event);

}  // namespace sangam

#endif  // SANGAM_CLIENT_JSON_TEXT_H_
