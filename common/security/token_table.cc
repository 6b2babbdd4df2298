#include "common/security/token_table.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/security/identity.h"

namespace sangam {
namespace {

// So that scanners for secrets can find one that lies about.
constexpr absl::string_view kPrefix = "sangam_";
constexpr size_t kTokenBytes = 32;
constexpr size_t kMaxTokens = 10'000;
constexpr size_t kMaxTokenLength = 256;

std::array<uint8_t, 32> Digest(absl::string_view token) {
  std::array<uint8_t, 32> digest = {};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

std::string Hex(const uint8_t* bytes, size_t count) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes), count));
}

absl::Status CheckIdentity(const Identity& identity) {
  if (!IsIdentityName(identity.name)) {
    return absl::InvalidArgumentError(
        "name: expected 1 to 128 of letters, digits, '.', '_', '@' and '-'");
  }
  if (identity.role != Role::kClient && identity.role != Role::kViewer &&
      identity.role != Role::kAdmin) {
    return absl::InvalidArgumentError(
        absl::StrCat("role: found ", RoleName(identity.role),
                     ", expected client, viewer or admin; daemons have certificates"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::array<uint8_t, 32>> ParseDigest(absl::string_view text) {
  std::array<uint8_t, 32> digest = {};
  const bool hex =
      text.size() == 2 * digest.size() && std::all_of(text.begin(), text.end(), [](char c) {
        return absl::ascii_isxdigit(static_cast<unsigned char>(c));
      });
  if (!hex) return absl::InvalidArgumentError("digest: expected 64 hexadecimal digits");
  const std::string bytes = absl::HexStringToBytes(text);
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

}  // namespace

absl::StatusOr<NewToken> MakeToken(const Identity& identity, absl::Time expires) {
  RETURN_IF_ERROR(CheckIdentity(identity));
  std::array<uint8_t, kTokenBytes> random = {};
  if (RAND_bytes(random.data(), random.size()) != 1) {
    return absl::InternalError("the system gives no random bits");
  }
  NewToken made;
  made.token = absl::StrCat(kPrefix, Hex(random.data(), random.size()));
  const std::array<uint8_t, 32> digest = Digest(made.token);
  made.line = absl::StrCat(identity.name, " ", RoleName(identity.role), " ",
                           Hex(digest.data(), digest.size()));
  if (expires != absl::InfiniteFuture()) {
    absl::StrAppend(&made.line, " ",
                    absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", expires, absl::UTCTimeZone()));
  }
  return made;
}

absl::StatusOr<std::string> ParseToken(absl::string_view text) {
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  const bool plain = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
  if (!absl::StartsWith(token, kPrefix) || token.size() != kPrefix.size() + 2 * kTokenBytes ||
      !plain) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected one token, ", kPrefix, "... as \"sangam tokens new\" prints it"));
  }
  return std::string(token);
}

absl::StatusOr<TokenTable> TokenTable::Parse(absl::string_view text) {
  TokenTable table;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const auto wrong = [number](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", what));
    };
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() < 3 || words.size() > 4) {
      return wrong(
          absl::StrCat("found ", words.size(), " words, expected: name role digest [expiry]"));
    }
    Entry entry;
    entry.identity.name = std::string(words[0]);
    const absl::StatusOr<Role> role = ParseRole(words[1]);
    if (!role.ok()) return wrong(role.status().message());
    entry.identity.role = *role;
    if (const absl::Status status = CheckIdentity(entry.identity); !status.ok()) {
      return wrong(status.message());
    }
    const absl::StatusOr<std::array<uint8_t, 32>> digest = ParseDigest(words[2]);
    if (!digest.ok()) return wrong(digest.status().message());
    entry.digest = *digest;
    entry.expires = absl::InfiniteFuture();
    if (words.size() == 4) {
      std::string error;
      if (!absl::ParseTime(absl::RFC3339_full, words[3], &entry.expires, &error)) {
        return wrong("expiry: expected a time as 2027-01-31T00:00:00Z");
      }
    }
    if (table.entries_.size() == kMaxTokens) {
      return wrong(absl::StrCat("found more than ", kMaxTokens, " tokens"));
    }
    table.entries_.push_back(std::move(entry));
  }
  return table;
}

absl::StatusOr<Identity> TokenTable::Find(absl::string_view token, absl::Time now) const {
  if (token.empty() || token.size() > kMaxTokenLength) {
    return absl::UnauthenticatedError("the token is not known");
  }
  const std::array<uint8_t, 32> digest = Digest(token);
  const Entry* found = nullptr;
  // All of them, whether or not one was found.
  for (const Entry& entry : entries_) {
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry;
  }
  if (found == nullptr) return absl::UnauthenticatedError("the token is not known");
  if (now >= found->expires) {
    return absl::UnauthenticatedError(
        absl::StrCat("the token of ", found->identity.ToString(), " has expired at ",
                     absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", found->expires, absl::UTCTimeZone())));
  }
  return found->identity;
}

}  // namespace sangam
