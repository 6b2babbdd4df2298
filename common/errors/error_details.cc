#include "common/errors/error_details.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/google/rpc/error_details.pb.h"

namespace sangam {
namespace {

template <typename Detail>
std::string UrlOf() {
  return absl::StrCat(kDetailUrlPrefix, Detail::descriptor()->full_name());
}

template <typename Detail>
absl::Status With(const absl::Status& status, const Detail& detail) {
  absl::Status result = status;
  result.SetPayload(UrlOf<Detail>(), absl::Cord(detail.SerializeAsString()));
  return result;
}

template <typename Detail>
std::optional<Detail> Get(const absl::Status& status) {
  const auto payload = status.GetPayload(UrlOf<Detail>());
  Detail detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

}  // namespace

absl::Status WithReason(const absl::Status& status, absl::string_view reason,
                        const std::map<std::string, std::string>& metadata) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(std::string(kErrorDomain));
  info.mutable_metadata()->insert(metadata.begin(), metadata.end());
  return With(status, info);
}

absl::Status WithFieldViolations(const absl::Status& status,
                                 const std::vector<FieldViolation>& violations) {
  google::rpc::BadRequest bad;
  for (const FieldViolation& violation : violations) {
    google::rpc::BadRequest::FieldViolation* const added = bad.add_field_violations();
    added->set_field(violation.field);
    added->set_description(violation.description);
  }
  return With(status, bad);
}

absl::Status WithRetryDelay(const absl::Status& status, absl::Duration delay) {
  google::rpc::RetryInfo retry;
  absl::Duration rest;
  retry.mutable_retry_delay()->set_seconds(absl::IDivDuration(delay, absl::Seconds(1), &rest));
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return With(status, retry);
}

std::optional<ErrorReason> ReasonOf(const absl::Status& status) {
  const auto info = Get<google::rpc::ErrorInfo>(status);
  if (!info.has_value() || info->domain() != kErrorDomain) return std::nullopt;
  return ErrorReason{info->reason(), {info->metadata().begin(), info->metadata().end()}};
}

std::vector<FieldViolation> FieldViolationsOf(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  const auto bad = Get<google::rpc::BadRequest>(status);
  if (!bad.has_value()) return violations;
  for (const auto& violation : bad->field_violations()) {
    violations.push_back({violation.field(), violation.description()});
  }
  return violations;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto retry = Get<google::rpc::RetryInfo>(status);
  if (!retry.has_value()) return std::nullopt;
  return absl::Seconds(retry->retry_delay().seconds()) +
         absl::Nanoseconds(retry->retry_delay().nanos());
}

std::string ReasonName(const absl::Status& status) {
  const std::optional<ErrorReason> reason = ReasonOf(status);
  return reason.has_value() ? reason->reason : absl::StatusCodeToString(status.code());
}

}  // namespace sangam
