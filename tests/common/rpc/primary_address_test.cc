#include "common/rpc/primary_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(PrimaryAddressTest, IsAnAddressOfThisMachine) {
  in_addr address = {};
  EXPECT_EQ(inet_pton(AF_INET, PrimaryAddress().c_str(), &address), 1) << PrimaryAddress();
  EXPECT_NE(address.s_addr, htonl(INADDR_ANY));
}

}  // namespace
}  // namespace sangam
