#include "common/security/security_flags.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

absl::Status CheckTrustDomain(absl::string_view name) {
  bool fits = !name.empty() && name.size() <= 63;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    fits = fits && (absl::ascii_islower(byte) || absl::ascii_isdigit(byte) || c == '.' || c == '-');
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--trust_domain: expected 1 to 63 of lower-case letters, digits, '.' and '-'");
}

void AddTlsFlags(SecurityFlags* security, FlagSet* flags) {
  flags->AddString({"tls_cert", "FILE",
                    "Certificate (PEM) that says who this process is; with --tls_key and --tls_ca. "
                    "A changed file is taken without a restart."},
                   &security->tls.certificate);
  flags->AddString(
      {"tls_key", "FILE", "Its private key (PEM), which others must not be able to read."},
      &security->tls.key);
  flags->AddString({"tls_ca", "FILE", "Authorities (PEM) whose certificates are trusted."},
                   &security->tls.authority);
  flags->AddString({"trust_domain", "NAME",
                    "Certificates must be for spiffe://NAME/role/ROLE[/NAME-OF-THE-HOLDER]."},
                   &security->trust_domain);
}

}  // namespace

void SecurityFlags::AddWorkerFlags(FlagSet* flags) {
  AddTlsFlags(this, flags);
  flags->AddSwitch({"insecure_allow_remote", "",
                    "Listen beyond this machine without TLS: whoever reaches the port may do "
                    "everything. For networks that nobody else can reach."},
                   &insecure_allow_remote);
}

void SecurityFlags::AddServerFlags(FlagSet* flags) {
  AddWorkerFlags(flags);
  flags->AddString({"tokens", "FILE",
                    "Digests of clients' tokens (sangam tokens new), the same at the coordinator "
                    "and at servers, where weights are read. With it clients may come without a "
                    "certificate. Needs TLS."},
                   &tokens);
  flags->AddString(
      {"audit_log", "FILE", "Who did what, one line of JSON each; default: the ordinary log."},
      &audit_log);
}

void SecurityFlags::AddClientFlags(FlagSet* flags) {
  AddTlsFlags(this, flags);
  flags->AddString({"token_file", "FILE",
                    "Token in place of a certificate, with --tls_ca; others must not be able to "
                    "read the file."},
                   &token_file);
}

absl::Status SecurityFlags::CheckDaemon() const {
  RETURN_IF_ERROR(CheckTrustDomain(trust_domain));
  const bool all = !tls.certificate.empty() && !tls.key.empty() && !tls.authority.empty();
  if (!all && !tls.empty()) {
    return absl::InvalidArgumentError(
        "--tls_cert, --tls_key and --tls_ca: found some of them, expected all three or none");
  }
  if (!all && !tokens.empty()) {
    return absl::InvalidArgumentError(
        "--tokens: found without TLS, expected --tls_cert, --tls_key and --tls_ca too; a token "
        "must "
        "never travel in plain text");
  }
  return absl::OkStatus();
}

absl::Status SecurityFlags::CheckClient() const {
  RETURN_IF_ERROR(CheckTrustDomain(trust_domain));
  if (tls.certificate.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls_cert and --tls_key: found one of them, expected both or none");
  }
  if (!tls.certificate.empty() && tls.authority.empty()) {
    return absl::InvalidArgumentError("--tls_cert: expected --tls_ca=FILE too");
  }
  if (!token_file.empty() && tls.authority.empty()) {
    return absl::InvalidArgumentError(
        "--token_file: expected --tls_ca=FILE too; a token is sent over TLS only");
  }
  if (!token_file.empty() && !tls.certificate.empty()) {
    return absl::InvalidArgumentError("found --token_file and --tls_cert, expected one of them");
  }
  if (!tls.authority.empty() && token_file.empty() && tls.certificate.empty()) {
    return absl::InvalidArgumentError(
        "--tls_ca: expected --tls_cert and --tls_key too, or --token_file");
  }
  return absl::OkStatus();
}

}  // namespace sangam
