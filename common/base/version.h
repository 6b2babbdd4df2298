#ifndef SANGAM_COMMON_BASE_VERSION_H_
#define SANGAM_COMMON_BASE_VERSION_H_

#include <cstdint>

namespace sangam {

// Version of the program, as `--version` prints it.
inline constexpr char kVersion[] = "0.1.0";

// Version of what daemons say to one another (proto/). Peers with another one are refused.
inline constexpr uint32_t kProtocolVersion = 2;

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_VERSION_H_
