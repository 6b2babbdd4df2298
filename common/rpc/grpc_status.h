#ifndef SANGAM_COMMON_RPC_GRPC_STATUS_H_
#define SANGAM_COMMON_RPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

// The two ways to say how a call ended. Their codes have the same numbers and meanings.
namespace sangam {

// A message travels as metadata, percent-encoded, and a client takes 8 KiB of metadata by default:
// with a longer message it would see another error altogether.
inline constexpr size_t kMaxEncodedMessageBytes = size_t{6} * 1024;

namespace grpc_status_internal {

// As much of `message` as fits, with a note of what is missing. Cuts between UTF-8 characters.
inline std::string Fitting(absl::string_view message) {
  constexpr size_t kRoomForNote = 64;
  size_t encoded = 0;
  size_t fits = 0;  // bytes of the message that leave room for the note
  for (size_t i = 0; i < message.size(); ++i) {
    const auto c = static_cast<unsigned char>(message[i]);
    const bool starts_character = (c & 0xC0) != 0x80;
    if (starts_character && encoded + kRoomForNote <= kMaxEncodedMessageBytes) fits = i;
    encoded += c >= 0x20 && c <= 0x7E && c != '%' ? 1 : 3;
  }
  if (encoded <= kMaxEncodedMessageBytes) return std::string(message);
  return absl::StrCat(message.substr(0, fits), "... (", message.size() - fits, " bytes more)");
}

}  // namespace grpc_status_internal

// A very long message is cut.
inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      grpc_status_internal::Fitting(status.message()));
}

inline absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_GRPC_STATUS_H_
