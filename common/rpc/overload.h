#ifndef SANGAM_COMMON_RPC_OVERLOAD_H_
#define SANGAM_COMMON_RPC_OVERLOAD_H_

#include "absl/status/status.h"
#include "absl/strings/match.h"

namespace sangam {

// Whether the peer's gRPC broke the call off because the memory of its process was used up. It does
// not look whose call it is, so it may be one that is in order, and the same again may do. What our
// own services refuse with RESOURCE_EXHAUSTED is final.
inline bool IsBrokenOffForRoom(const absl::Status& status) {
  // The texts of gRPC 1.51; the number is ENHANCE_YOUR_CALM of HTTP/2.
  return absl::IsResourceExhausted(status) &&
         (absl::StrContains(status.message(), "RST_STREAM with error code 11") ||
          absl::StrContains(status.message(), "Buffers full"));
}

// Whether the peer's gRPC refused the call because all threads of its process were busy. Nothing of
// the call was done.
inline bool IsRefusedForThreads(const absl::Status& status) {
  return absl::IsResourceExhausted(status) &&
         absl::StrContains(status.message(), "Server Threadpool Exhausted");
}

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_OVERLOAD_H_
