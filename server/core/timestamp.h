#ifndef SANGAM_SERVER_CORE_TIMESTAMP_H_
#define SANGAM_SERVER_CORE_TIMESTAMP_H_

#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"

namespace sangam {

inline google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  google::protobuf::Timestamp stamp;
  stamp.set_seconds(seconds);
  stamp.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return stamp;
}

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_TIMESTAMP_H_
