#include "common/rpc/grpc_status.h"

#include <grpcpp/support/status.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/errors/error_details.h"
#include "proto/google/rpc/status.pb.h"

namespace sangam {
namespace {

constexpr absl::Duration kRetryDelay = absl::Seconds(1);
constexpr absl::string_view kViolationsUrl = "type.googleapis.com/google.rpc.BadRequest";
// What is taken from a peer.
constexpr int kMaxDetails = 8;

size_t EncodedBytes(absl::string_view message) {
  size_t encoded = 0;
  for (const char c : message) encoded += c >= 0x20 && c <= 0x7E && c != '%' ? 1 : 3;
  return encoded;
}

// As much of `message` as fits, with a note of what is missing. Cuts between UTF-8 characters.
std::string Fitting(absl::string_view message) {
  constexpr size_t kRoomForNote = 64;
  size_t encoded = 0;
  size_t fits = 0;  // bytes of the message that leave room for the note
  for (size_t i = 0; i < message.size(); ++i) {
    const auto c = static_cast<unsigned char>(message[i]);
    const bool starts_character = (c & 0xC0) != 0x80;
    if (starts_character && encoded + kRoomForNote <= kMaxEncodedMessageBytes) fits = i;
    encoded += EncodedBytes(message.substr(i, 1));
  }
  if (encoded <= kMaxEncodedMessageBytes) return std::string(message);
  return absl::StrCat(message.substr(0, fits), "... (", message.size() - fits, " bytes more)");
}

bool MayTryAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

absl::Status Complete(absl::Status status) {
  if (!ReasonOf(status).has_value()) status = WithReason(status, ReasonName(status));
  if (MayTryAgain(status) && !RetryDelayOf(status).has_value()) {
    status = WithRetryDelay(status, kRetryDelay);
  }
  return status;
}

// Serialized; empty when it takes more room than there is.
std::string Details(const absl::Status& status, const std::string& message, bool violations) {
  google::rpc::Status rich;
  rich.set_code(static_cast<int>(status.code()));
  rich.set_message(message);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    if (!absl::StartsWith(url, kDetailUrlPrefix)) return;
    if (url == kViolationsUrl && !violations) return;
    google::protobuf::Any* const detail = rich.add_details();
    detail->set_type_url(std::string(url));
    detail->set_value(std::string(payload));
  });
  // As base64.
  const size_t encoded = (rich.ByteSizeLong() + 2) / 3 * 4;
  if (EncodedBytes(message) + encoded > kMaxEncodedErrorBytes) return "";
  return rich.SerializeAsString();
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = Fitting(status.message());
  const absl::Status complete = Complete(status);
  std::string details = Details(complete, message, true);
  if (details.empty()) details = Details(complete, message, false);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message, details);
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

absl::Status FromGrpcStatusWithDetails(const grpc::Status& status) {
  absl::Status result = FromGrpcStatus(status);
  google::rpc::Status rich;
  if (status.error_details().empty() || !rich.ParseFromString(status.error_details())) {
    return result;
  }
  for (int i = 0; i < rich.details_size() && i < kMaxDetails; ++i) {
    const google::protobuf::Any& detail = rich.details(i);
    if (!absl::StartsWith(detail.type_url(), kDetailUrlPrefix)) continue;
    result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return result;
}

}  // namespace sangam
