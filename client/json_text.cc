#include "client/json_text.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/human_format.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message, bool whitespace) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = whitespace;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(message.GetTypeName(), " as JSON: ", status.message().ToString()));
  }
  absl::StripTrailingAsciiWhitespace(&json);
  return json;
}

}  // namespace

absl::StatusOr<std::string> ToJsonLine(const google::protobuf::Message& message) {
  return ToJson(message, false);
}

absl::StatusOr<std::string> ToJsonIndented(const google::protobuf::Message& message) {
  return ToJson(message, true);
}

std::string MetricsLine(const v1::JobEvent& event) {
  nlohmann::ordered_json line;
  const std::string time =
      absl::FormatTime(absl::RFC3339_full, ToTime(event.time()), absl::UTCTimeZone());
  if (event.has_step()) {
    line["kind"] = "step";
    line["time"] = time;
    line["step"] = event.step().step();
    line["epoch"] = event.step().epoch();
    line["loss"] = event.step().loss();
    line["samples"] = event.step().samples();
    line["samples_per_second"] = event.step().samples_per_second();
  } else if (event.has_evaluation()) {
    line["kind"] = "evaluation";
    line["time"] = time;
    line["step"] = event.evaluation().step();
    line["accuracy"] = event.evaluation().accuracy();
    line["loss"] = event.evaluation().loss();
    line["correct"] = event.evaluation().correct();
    line["samples"] = event.evaluation().samples();
  } else {
    return "";
  }
  return line.dump();
}

}  // namespace sangam
