#ifndef SANGAM_COMMON_RPC_PRIMARY_ADDRESS_H_
#define SANGAM_COMMON_RPC_PRIMARY_ADDRESS_H_

#include <string>

namespace sangam {

// The IPv4 address that this machine uses towards other networks; "127.0.0.1" when it knows no
// other network. Sends nothing.
std::string PrimaryAddress();

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_PRIMARY_ADDRESS_H_
