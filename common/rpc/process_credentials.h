#ifndef SANGAM_COMMON_RPC_PROCESS_CREDENTIALS_H_
#define SANGAM_COMMON_RPC_PROCESS_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"
#include "common/rpc/watched_tls.h"
#include "common/security/audit_log.h"
#include "common/security/caller.h"
#include "common/security/identity.h"
#include "common/security/security_flags.h"
#include "common/security/token_table.h"

namespace sangam {

// Who this process is to others, and how it learns who they are: TLS in both directions with
// certificates that are taken anew when their files change, tokens of clients, and the rights of
// every call. Channels and servers take their credentials from here. Thread-safe; must outlive
// every server that has its credentials.
class ProcessCredentials {
 public:
  // Without TLS: everybody is believed.
  ProcessCredentials();
  // Of a daemon or of a client. Without TLS files: as the default constructor.
  // `roles`: what the certificate of the daemon may be for.
  // Errors: as SecurityFlags::Check..., LoadTlsFiles, TokenTable::Parse and AuditLog::Open; marked
  // by
  //         OfConfiguration
  static absl::StatusOr<std::shared_ptr<ProcessCredentials>> ForDaemon(
      const SecurityFlags& flags,
      RoleSet roles = RoleSet(Role::kWorker, Role::kServer, Role::kCoordinator));
  static absl::StatusOr<std::shared_ptr<ProcessCredentials>> ForClient(const SecurityFlags& flags);
  ~ProcessCredentials();
  ProcessCredentials(const ProcessCredentials&) = delete;
  ProcessCredentials& operator=(const ProcessCredentials&) = delete;

  bool encrypted() const { return tls_ != nullptr; }
  bool insecure_allow_remote() const { return flags_.insecure_allow_remote; }
  // Empty without a certificate.
  const std::optional<Identity>& identity() const { return identity_; }
  // When the certificate in use ends; never without one.
  absl::Time expires() const;

  // For a channel to a server that must be one of `peers`.
  std::shared_ptr<grpc::ChannelCredentials> ChannelTo(RoleSet peers) const;
  // For a server. Every call, of whichever service, goes through the rights of its method
  // (common/security/method_rights.h) before a handler sees it. The calls end with
  //   UNAUTHENTICATED    no valid credentials
  //   PERMISSION_DENIED  the role may not call the method
  // `counts`: of these; may be nullptr, outlives the server.
  std::shared_ptr<grpc::ServerCredentials> Server(RefusalCounts* counts = nullptr);

  // Of a call that got through.
  Caller CallerOf(const grpc::ServerContextBase& context) const;

  AuditLog* audit_log() const { return audit_log_.get(); }

  // Looks at all files now: for SIGHUP. It happens by itself every second too.
  void Reload();
  // What was taken of changed files since the last question, by whichever look: each file, whose it
  // is now and until when; empty: nothing.
  // Errors: what is wrong with files as they lie there, so that older ones are still in use
  absl::StatusOr<std::string> TakeNews();

 private:
  class Authorizer;

  ProcessCredentials(const SecurityFlags& flags, const Clock* clock);
  static absl::StatusOr<std::shared_ptr<ProcessCredentials>> Create(const SecurityFlags& flags);
  absl::StatusOr<TokenTable> LoadTokens(std::string* text) const;
  void ReloadTokens() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reload_mutex_);
  void Watch();

  // Errors: Unauthenticated  no credentials, or such as are not valid
  absl::StatusOr<Identity> Identify(const grpc::AuthContext& context,
                                    std::optional<absl::string_view> authorization) const;
  absl::Status Authorize(const grpc::AuthContext& context, absl::string_view method,
                         std::optional<absl::string_view> authorization) const;

  const SecurityFlags flags_;
  const Clock& clock_;
  std::unique_ptr<AuditLog> audit_log_;
  std::optional<Identity> identity_;
  std::string token_;  // of a client

  Mutex reload_mutex_;  // taken before mutex_
  std::unique_ptr<WatchedTls> tls_;
  std::string tokens_text_ ABSL_GUARDED_BY(reload_mutex_);
  std::string tokens_fault_ ABSL_GUARDED_BY(reload_mutex_);
  // For TakeNews, by the kind of file: the newest.
  std::string tls_news_ ABSL_GUARDED_BY(reload_mutex_);
  std::string tokens_news_ ABSL_GUARDED_BY(reload_mutex_);

  mutable Mutex mutex_;
  std::shared_ptr<const TokenTable> tokens_ ABSL_GUARDED_BY(mutex_);
  absl::Time expires_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool warned_of_end_ ABSL_GUARDED_BY(reload_mutex_) = false;
  CondVar stop_now_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;
};

// A process has one identity: main sets it before it makes a channel or a server, which take it
// from here unless they are given another one. Before, and without: plaintext.
void SetProcessCredentials(std::shared_ptr<ProcessCredentials> credentials);
std::shared_ptr<ProcessCredentials> CurrentProcessCredentials();

// Who makes this call, to a server with the process's credentials.
Caller CallerIdentity(const grpc::ServerContextBase& context);

// Who has the places that a call takes, where each caller may have a number of them: those with a
// name wherever they are, others by machine.
std::string HolderOf(const grpc::ServerContextBase& context);

// Writes into the process's audit log what came of this call. `method`: "SubmitJob"; `resource`:
// "job 12". What was not done, for whatever reason, is limited in number.
void Audit(const grpc::ServerContextBase& context, absl::string_view method, std::string resource,
           const absl::Status& result);

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_PROCESS_CREDENTIALS_H_
