#include "common/rpc/host_port.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(HostPortTest, ReadsAndWritesAddresses) {
  for (const char* text : {"localhost:7070", "10.0.0.1:0", "host-1.example.com:65535", ":7071",
                           "[::1]:80", "[fe80::1%eth0]:7070"}) {
    const auto address = ParseHostPort(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(ToString(*address), text);
  }
  EXPECT_EQ(ParseHostPort("[::1]:80")->host, "::1");
  EXPECT_EQ(ParseHostPort(":7071")->host, "");
}

TEST(HostPortTest, RefusesEverythingElseAndSaysWhatItFound) {
  for (const char* text :
       {"", "localhost", "localhost:", "localhost:x", "localhost:65536", "localhost:-1",
        "localhost:+1", "localhost: 1", "::1:80", "[::1]", "[::1:80", "[localhost]:80", "a b:80",
        "dns:///host:80", "unix:/tmp/s", "host:80:90", "a/b:80", "h\n:80"}) {
    const auto address = ParseHostPort(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(address.status().message().find("expected HOST:PORT"), absl::string_view::npos);
  }
  EXPECT_FALSE(ParseHostPort(std::string(254, 'a') + ":80").ok());
}

TEST(HostPortTest, ATargetNeedsHostAndPort) {
  EXPECT_TRUE(ParseTarget("h:1").ok());
  EXPECT_FALSE(ParseTarget(":7071").ok());
  EXPECT_FALSE(ParseTarget("h:0").ok());
}

TEST(HostPortTest, HostOfAPeerAsGrpcNamesIt) {
  EXPECT_EQ(HostOfPeer("ipv4:10.1.2.3:39000").value(), "10.1.2.3");
  EXPECT_EQ(HostOfPeer("ipv6:%5B::1%5D:39000").value(), "::1");
  EXPECT_EQ(HostOfPeer("ipv6:[2001:db8::7]:39000").value(), "2001:db8::7");
  EXPECT_EQ(HostOfPeer("ipv6:%5B::ffff:10.1.2.3%5D:39000").value(), "10.1.2.3");
  EXPECT_EQ(HostOfPeer("ipv6:%5Bfe80::1%25eth0%5D:39000").value(), "fe80::1%eth0");
  EXPECT_EQ(HostOfPeer("unix:").value(), "127.0.0.1");
  EXPECT_FALSE(HostOfPeer("something else").ok());
  EXPECT_EQ(ToString(ParsePeer("ipv6:%5B::ffff:10.1.2.3%5D:39000").value()), "10.1.2.3:39000");
  EXPECT_FALSE(ParsePeer("unix:").ok());
}

TEST(HostPortTest, KnowsLoopbackAndWildcard) {
  EXPECT_TRUE(IsLoopback("127.0.0.1") && IsLoopback("127.1.2.3") && IsLoopback("::1") &&
              IsLoopback("localhost"));
  EXPECT_FALSE(IsLoopback("127.example.org") || IsLoopback("127.0.0.1.example.org") ||
               IsLoopback("127.1") || IsLoopback("1.127.0.0"));
  EXPECT_FALSE(IsLoopback("10.0.0.1") || IsLoopback("") || IsLoopback("0.0.0.0"));
  EXPECT_TRUE(IsWildcard("") && IsWildcard("0.0.0.0") && IsWildcard("::"));
  EXPECT_FALSE(IsWildcard("127.0.0.1") || IsWildcard("host"));
}

}  // namespace
}  // namespace sangam
