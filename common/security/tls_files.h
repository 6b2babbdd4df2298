#ifndef SANGAM_COMMON_SECURITY_TLS_FILES_H_
#define SANGAM_COMMON_SECURITY_TLS_FILES_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/security/identity.h"

namespace sangam {

// Where the credentials of a process lie, all in PEM. A client with a token has the authority only.
struct TlsFiles {
  std::string certificate;  // the leaf first, then what leads to the authority
  std::string key;
  std::string authority;  // one or more certificates that are trusted

  bool empty() const { return certificate.empty() && key.empty() && authority.empty(); }
};

// Credentials that fit together. Without a certificate there is no key, identity or time.
struct TlsMaterial {
  std::string certificate;
  std::string key;
  std::string authority;
  size_t num_authorities = 0;
  std::optional<Identity> identity;
  std::string serial;  // hexadecimal
  absl::Time not_after = absl::InfiniteFuture();
};

// Reads and checks them: the key belongs to the certificate and nobody else can read or change it,
// the certificate leads to the authority and is valid at `now`, and it says who it is for.
// Errors: NotFound, PermissionDenied, ...  a file cannot be read; as the system says
//         FailedPrecondition               the key's file can be read by others
//         InvalidArgument                  anything else that is wrong, with the file's name
absl::StatusOr<TlsMaterial> LoadTlsFiles(const TlsFiles& files, absl::string_view trust_domain,
                                         absl::Time now);

// The whole of a small regular file. `secret`: refused when others than its owner and its group can
// read it, or others than its owner can write it.
// Errors: as LoadTlsFiles
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, bool secret);

}  // namespace sangam

#endif  // SANGAM_COMMON_SECURITY_TLS_FILES_H_
