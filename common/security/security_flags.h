#ifndef SANGAM_COMMON_SECURITY_SECURITY_FLAGS_H_
#define SANGAM_COMMON_SECURITY_SECURITY_FLAGS_H_

#include <string>

#include "absl/status/status.h"
#include "common/flags/flags.h"
#include "common/security/tls_files.h"

namespace sangam {

// How a process shows who it is, and whom it believes.
struct SecurityFlags {
  TlsFiles tls;
  // Whose certificates are believed: "spiffe://<trust_domain>/...".
  std::string trust_domain = "sangam";
  // May listen beyond this machine without TLS.
  bool insecure_allow_remote = false;
  // Coordinator and servers: the tokens that they know. Empty: every caller needs a certificate.
  std::string tokens;
  // Client: the file with its token.
  std::string token_file;
  // Empty: the ordinary log.
  std::string audit_log;

  // Of sangam-worker.
  void AddWorkerFlags(FlagSet* flags);
  // Of sangam-server.
  void AddServerFlags(FlagSet* flags);
  // Of sangam. What the fields hold is the default; main fills in the environment's.
  void AddClientFlags(FlagSet* flags);

  // Errors: InvalidArgument  flags that do not go together
  absl::Status CheckDaemon() const;
  absl::Status CheckClient() const;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_SECURITY_SECURITY_FLAGS_H_
