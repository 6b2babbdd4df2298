#ifndef SANGAM_COMMON_RPC_WATCHED_TLS_H_
#define SANGAM_COMMON_RPC_WATCHED_TLS_H_

#include <grpcpp/security/tls_certificate_provider.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/rpc/memory_file.h"
#include "common/security/tls_files.h"

namespace sangam {

// The TLS files of a process, as gRPC's handshakes use them: new ones are taken when they fit
// together, and until then the old ones stay. gRPC itself reads copies, because it would take a
// certificate without its key when it looks between the two, and refuse every handshake. Used by
// one thread, but for what says otherwise.
class WatchedTls {
 public:
  // Errors: as LoadTlsFiles
  static absl::StatusOr<std::unique_ptr<WatchedTls>> Create(const TlsFiles& files,
                                                            const std::string& trust_domain,
                                                            const Clock* clock);
  WatchedTls(const WatchedTls&) = delete;
  WatchedTls& operator=(const WatchedTls&) = delete;

  // Looks at the files. gRPC has what changed about a second later. Returns what was taken, in
  // words: each file, whose it is and until when; empty: nothing.
  // Errors: as LoadTlsFiles, once for each change that is refused
  absl::StatusOr<std::string> Reload();
  // What is wrong with the files as they were at the last look; empty: nothing.
  const std::string& fault() const { return last_fault_; }

  // Thread-safe. Without a certificate: one for clients that come with a token.
  const std::shared_ptr<grpc::experimental::CertificateProviderInterface>& provider() const {
    return provider_;
  }
  bool has_certificate() const { return copy_ != nullptr; }

  const TlsMaterial& material() const { return material_; }

 private:
  std::string Taken(bool own, bool authority) const;
  WatchedTls(const TlsFiles& files, std::string trust_domain, const Clock* clock)
      : files_(files), trust_domain_(std::move(trust_domain)), clock_(*clock) {}

  const TlsFiles files_;
  const std::string trust_domain_;
  const Clock& clock_;
  TlsMaterial material_;
  std::string last_fault_;
  // Key and certificate in one file, so that nobody ever sees one without the other.
  std::unique_ptr<MemoryFile> copy_;
  std::unique_ptr<MemoryFile> authority_;
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_WATCHED_TLS_H_
