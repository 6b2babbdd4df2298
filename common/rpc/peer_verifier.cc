#include "common/rpc/peer_verifier.h"

#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/grpc_status.h"
#include "common/security/identity.h"

namespace sangam {
namespace {

namespace tls = grpc::experimental;

class RoleVerifier final : public tls::ExternalCertificateVerifier {
 public:
  RoleVerifier(RoleSet roles, std::string trust_domain)
      : roles_(roles), trust_domain_(std::move(trust_domain)) {}

  // Answers at once.
  bool Verify(tls::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* sync_status) override {
    std::vector<std::string> uris;
    for (const grpc::string_ref& uri : request->uri_names()) {
      uris.emplace_back(uri.data(), uri.size());
    }
    *sync_status = ToGrpcStatus(Check(uris));
    return true;
  }

  void Cancel(tls::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  absl::Status Check(const std::vector<std::string>& uris) const {
    const absl::StatusOr<Identity> peer = IdentityFromUris(uris, trust_domain_);
    if (!peer.ok())
      return absl::UnauthenticatedError(absl::StrCat("server: ", peer.status().message()));
    if (roles_.Has(peer->role)) return absl::OkStatus();
    return absl::UnauthenticatedError(absl::StrCat("server: found a certificate for ",
                                                   peer->ToString(), ", expected one for ",
                                                   roles_.ToString()));
  }

  const RoleSet roles_;
  const std::string trust_domain_;
};

}  // namespace

std::shared_ptr<tls::CertificateVerifier> MakePeerVerifier(RoleSet roles,
                                                           const std::string& trust_domain) {
  return tls::ExternalCertificateVerifier::Create<RoleVerifier>(roles, trust_domain);
}

}  // namespace sangam
