#ifndef SANGAM_CLIENT_CERTIFICATE_AUTHORITY_H_
#define SANGAM_CLIENT_CERTIFICATE_AUTHORITY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

// A small certificate authority for development and labs: ECDSA on P-256, certificates as Sangam's
// daemons and clients expect them.
namespace sangam {

// A certificate with its private key, both as PEM text.
struct KeyPair {
  std::string certificate;
  std::string key;
};

// What a certificate is to say.
struct CertificateRequest {
  std::string trust_domain;
  // "coordinator", "server", "worker", "client", "viewer" or "admin".
  std::string role;
  // Binds the certificate to the daemon or the user of this name; empty: any of the role.
  std::string name;
  // DNS names and addresses of the daemon, for programs that check them. Sangam's own look at the
  // role.
  std::vector<std::string> hosts;
  absl::Time not_before;
  absl::Time not_after;
};

// "spiffe://sangam/role/worker/w1".
std::string RoleUri(const CertificateRequest& request);

// A new authority that signs certificates of `trust_domain`.
// Errors: InvalidArgument  not a trust domain: 1 to 63 of [a-z0-9.-]; an end before the begin
//         Internal         OpenSSL's own
absl::StatusOr<KeyPair> MakeAuthority(const std::string& trust_domain, absl::Time not_before,
                                      absl::Time not_after);

// A certificate that `authority` signs. Certificates of daemons may serve and connect, those of
// people only connect.
// Errors: InvalidArgument  malformed or unknown part of the request; the authority's certificate or
//                          key is no PEM, or the two do not belong together
//         Internal         OpenSSL's own
absl::StatusOr<KeyPair> IssueCertificate(const KeyPair& authority,
                                         const CertificateRequest& request);

// The trust domain that an authority was made for.
// Errors: InvalidArgument  no PEM, or not a certificate of MakeAuthority
absl::StatusOr<std::string> TrustDomainOf(const std::string& authority_certificate);

// The roles that a certificate may have.
const std::vector<std::string>& CertificateRoles();

}  // namespace sangam

#endif  // SANGAM_CLIENT_CERTIFICATE_AUTHORITY_H_
