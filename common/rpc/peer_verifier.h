#ifndef SANGAM_COMMON_RPC_PEER_VERIFIER_H_
#define SANGAM_COMMON_RPC_PEER_VERIFIER_H_

#include <grpcpp/security/tls_certificate_verifier.h>

#include <memory>
#include <string>

#include "common/security/identity.h"

namespace sangam {

// For a channel: the server's certificate, which TLS has verified against the authority, must be
// one of `roles`. Its host names do not count: daemons are reached by addresses that no certificate
// names, and what matters is what the peer is, not where it runs.
std::shared_ptr<grpc::experimental::CertificateVerifier> MakePeerVerifier(
    RoleSet roles, const std::string& trust_domain);

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_PEER_VERIFIER_H_
