#include "common/rpc/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

constexpr size_t kLongestHost = 253;  // of a name in the DNS

absl::Status Fault(absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(
      "found \"", absl::CHexEscape(found.substr(0, 2 * kLongestHost)), "\", expected HOST:PORT"));
}

bool IsNameOrIpv4(absl::string_view host) {
  return std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  });
}

bool IsIpv6(absl::string_view host) {
  // The zone, as in fe80::1%eth0, is a name.
  return absl::StrContains(host, ':') && std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == ':' || c == '.' ||
                  c == '%';
         });
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return Fault(text);
  absl::string_view host = text.substr(0, colon);
  const absl::string_view digits = text.substr(colon + 1);
  uint32_t port = 0;
  const bool only_digits = std::all_of(digits.begin(), digits.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (!only_digits || !absl::SimpleAtoi(digits, &port) || port > UINT16_MAX) return Fault(text);
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]") || !IsIpv6(host)) return Fault(text);
  } else if (!IsNameOrIpv4(host)) {
    return Fault(text);
  }
  if (host.size() > kLongestHost) return Fault(text);
  return HostPort{std::string(host), static_cast<uint16_t>(port)};
}

absl::StatusOr<HostPort> ParseTarget(absl::string_view text) {
  ASSIGN_OR_RETURN(HostPort address, ParseHostPort(text));
  if (address.host.empty() || address.port == 0) return Fault(text);
  return address;
}

std::string ToString(const HostPort& address) {
  const bool brackets = absl::StrContains(address.host, ':');
  return absl::StrCat(brackets ? "[" : "", address.host, brackets ? "]" : "", ":", address.port);
}

absl::StatusOr<std::string> HostOfPeer(absl::string_view peer) {
  if (absl::StartsWith(peer, "unix:")) return std::string("127.0.0.1");
  ASSIGN_OR_RETURN(const HostPort address, ParsePeer(peer));
  return address.host;
}

absl::StatusOr<HostPort> ParsePeer(absl::string_view peer) {
  absl::string_view rest = peer;
  if (!absl::ConsumePrefix(&rest, "ipv4:") && !absl::ConsumePrefix(&rest, "ipv6:")) {
    return Fault(peer);
  }
  // gRPC writes the address as part of a URI.
  ASSIGN_OR_RETURN(
      HostPort address,
      ParseHostPort(absl::StrReplaceAll(
          rest, {{"%5B", "["}, {"%5D", "]"}, {"%5b", "["}, {"%5d", "]"}, {"%25", "%"}})));
  absl::string_view host = address.host;
  if (absl::ConsumePrefix(&host, "::ffff:") && absl::StrContains(host, '.')) {
    address.host = std::string(host);
  }
  return address;
}

bool IsLoopback(absl::string_view host) {
  if (host == "::1" || host == "localhost") return true;
  // A name may begin with "127." too.
  in_addr address = {};
  return inet_pton(AF_INET, std::string(host).c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> 24 == 127;
}

bool IsWildcard(absl::string_view host) {
  return host.empty() || host == "0.0.0.0" || host == "::";
}

}  // namespace sangam
