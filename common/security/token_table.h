#ifndef SANGAM_COMMON_SECURITY_TOKEN_TABLE_H_
#define SANGAM_COMMON_SECURITY_TOKEN_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/security/identity.h"

namespace sangam {

// A token for a person or a program, and the line that makes it known to the coordinator. The line
// holds a digest: whoever reads it cannot use it.
struct NewToken {
  std::string token;
  std::string line;
};

// A token of 256 random bits. `expires`: absl::InfiniteFuture() for never.
// Errors: InvalidArgument  not a name of an identity, or a role of daemons
//         Internal         the system has no random bits
absl::StatusOr<NewToken> MakeToken(const Identity& identity, absl::Time expires);

// Checks the form of what a token's file holds, and returns the token without space around it.
// Errors: InvalidArgument  not a token; says nothing of what was found
absl::StatusOr<std::string> ParseToken(absl::string_view text);

// The tokens that a coordinator knows, from lines "name role digest [expiry]": the digest is
// SHA-256 in hexadecimal, the expiry as 2027-01-31T00:00:00Z. '#' begins a comment. Immutable.
class TokenTable {
 public:
  // Errors: InvalidArgument  a malformed line (with its number), a role of daemons, or too many
  static absl::StatusOr<TokenTable> Parse(absl::string_view text);

  // Whose token it is. Takes as long for a wrong token as for a right one.
  // Errors: Unauthenticated  unknown, expired or no token at all
  absl::StatusOr<Identity> Find(absl::string_view token, absl::Time now) const;

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Identity identity;
    std::array<uint8_t, 32> digest;
    absl::Time expires;
  };

  std::vector<Entry> entries_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_SECURITY_TOKEN_TABLE_H_
