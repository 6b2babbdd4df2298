#include "common/rpc/watched_tls.h"

#include <grpcpp/security/tls_certificate_provider.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/memory_file.h"
#include "common/security/identity.h"
#include "common/security/tls_files.h"

namespace sangam {
namespace {

constexpr unsigned int kLookSeconds = 1;

std::string KeyAndCertificate(const TlsMaterial& material) {
  return absl::StrCat(material.key, "\n", material.certificate);
}

}  // namespace

absl::StatusOr<std::unique_ptr<WatchedTls>> WatchedTls::Create(const TlsFiles& files,
                                                               const std::string& trust_domain,
                                                               const Clock* clock) {
  auto watched = absl::WrapUnique(new WatchedTls(files, trust_domain, clock));
  ASSIGN_OR_RETURN(watched->material_, LoadTlsFiles(files, trust_domain, clock->Wall()));
  ASSIGN_OR_RETURN(watched->authority_, MemoryFile::Create(watched->material_.authority));
  const std::string& authority = watched->authority_->path();
  using Provider = grpc::experimental::FileWatcherCertificateProvider;
  if (files.certificate.empty()) {
    watched->provider_ = std::make_shared<Provider>(authority, kLookSeconds);
    return watched;
  }
  ASSIGN_OR_RETURN(watched->copy_, MemoryFile::Create(KeyAndCertificate(watched->material_)));
  const std::string& own = watched->copy_->path();
  watched->provider_ = std::make_shared<Provider>(own, own, authority, kLookSeconds);
  return watched;
}

std::string WatchedTls::Taken(bool own, bool authority) const {
  std::string text;
  if (own) {
    text = absl::StrCat(
        "\"", files_.certificate, "\" and \"", files_.key, "\" for ",
        material_.identity->ToString(), ", serial ", material_.serial, ", until ",
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", material_.not_after, absl::UTCTimeZone()));
  }
  if (authority) {
    absl::StrAppend(&text, own ? "; " : "", "\"", files_.authority, "\" with ",
                    material_.num_authorities, " authorities");
  }
  return text;
}

absl::StatusOr<std::string> WatchedTls::Reload() {
  absl::StatusOr<TlsMaterial> loaded = LoadTlsFiles(files_, trust_domain_, clock_.Wall());
  absl::Status status = loaded.status();
  if (status.ok() && loaded->identity.has_value() &&
      loaded->identity->ToString() != material_.identity->ToString()) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "\"", files_.certificate, "\": found a certificate for ", loaded->identity->ToString(),
        ", expected one for ", material_.identity->ToString(),
        "; a process that is to be another one must be started again"));
  }
  if (!status.ok()) {
    std::string fault(status.message());
    const bool is_new = fault != last_fault_;
    last_fault_ = std::move(fault);
    if (is_new) return status;
    return "";
  }
  last_fault_.clear();
  const bool same_own =
      loaded->certificate == material_.certificate && loaded->key == material_.key;
  const bool same_authority = loaded->authority == material_.authority;
  if (same_own && same_authority) return "";
  if (!same_authority) RETURN_IF_ERROR(authority_->Replace(loaded->authority));
  if (!same_own) RETURN_IF_ERROR(copy_->Replace(KeyAndCertificate(*loaded)));
  material_ = *std::move(loaded);
  return Taken(!same_own, !same_authority);
}

}  // namespace sangam
