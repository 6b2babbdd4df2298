#include "common/rpc/process_credentials.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"
#include "common/base/status_macros.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/host_port.h"
#include "common/rpc/peer_verifier.h"
#include "common/rpc/watched_tls.h"
#include "common/security/audit_log.h"
#include "common/security/caller.h"
#include "common/security/identity.h"
#include "common/security/method_rights.h"
#include "common/security/security_flags.h"
#include "common/security/tls_files.h"
#include "common/security/token_table.h"

namespace sangam {
namespace {

constexpr absl::Duration kLookInterval = absl::Seconds(1);
// Of the end of a certificate that nobody has replaced.
constexpr absl::Duration kWarnBeforeEnd = absl::Hours(24);

// Of the certificate, as gRPC names them.
constexpr char kUriProperty[] = "peer_uri";

absl::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

template <typename Metadata>
std::optional<absl::string_view> Find(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  return View(found->second);
}

std::string Joined(const std::string& first, const std::string& second) {
  return absl::StrCat(first, first.empty() || second.empty() ? "" : "; ", second);
}

struct Process {
  Mutex mutex;
  std::shared_ptr<ProcessCredentials> credentials ABSL_GUARDED_BY(mutex) =
      std::make_shared<ProcessCredentials>();
};

Process& TheProcess() {
  static Process* const process = new Process;  // never destroyed: threads may use it to the end
  return *process;
}

}  // namespace

// Sees every call, with its path, before the server looks for its method.
class ProcessCredentials::Authorizer final : public grpc::AuthMetadataProcessor {
 public:
  Authorizer(const ProcessCredentials* credentials, RefusalCounts* counts)
      : credentials_(*credentials), counts_(counts) {}

  // It waits for nothing: no thread of its own is needed.
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) override {
    const std::optional<absl::string_view> method = Find(metadata, ":path");
    const absl::Status status =
        credentials_.Authorize(*context, method.value_or(""), Find(metadata, "authorization"));
    if (absl::IsUnauthenticated(status)) CountRefusal(counts_, Refusal::kCredentials);
    if (absl::IsPermissionDenied(status)) CountRefusal(counts_, Refusal::kRights);
    return ToGrpcStatus(status);
  }

 private:
  const ProcessCredentials& credentials_;
  RefusalCounts* const counts_;
};

ProcessCredentials::ProcessCredentials() : ProcessCredentials(SecurityFlags(), &Clock::Real()) {
  audit_log_ = *AuditLog::Open("", &clock_);
}

ProcessCredentials::ProcessCredentials(const SecurityFlags& flags, const Clock* clock)
    : flags_(flags), clock_(*clock) {}

ProcessCredentials::~ProcessCredentials() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    stop_now_.SignalAll();
  }
  if (watcher_.joinable()) watcher_.join();
}

absl::StatusOr<std::shared_ptr<ProcessCredentials>> ProcessCredentials::ForDaemon(
    const SecurityFlags& flags, RoleSet roles) {
  RETURN_IF_ERROR(OfConfiguration(flags.CheckDaemon()));
  ASSIGN_OR_RETURN(std::shared_ptr<ProcessCredentials> made, Create(flags));
  if (made->identity_.has_value() && !roles.Has(made->identity_->role)) {
    return OfConfiguration(absl::InvalidArgumentError(
        absl::StrCat("--tls_cert: found a certificate for ", made->identity_->ToString(),
                     ", expected one for a ", roles.ToString())));
  }
  return made;
}

absl::StatusOr<std::shared_ptr<ProcessCredentials>> ProcessCredentials::ForClient(
    const SecurityFlags& flags) {
  RETURN_IF_ERROR(OfConfiguration(flags.CheckClient()));
  return Create(flags);
}

absl::StatusOr<std::shared_ptr<ProcessCredentials>> ProcessCredentials::Create(
    const SecurityFlags& flags) {
  auto made = absl::WrapUnique(new ProcessCredentials(flags, &Clock::Real()));
  const auto fill = [&flags, &made]() -> absl::Status {
    ASSIGN_OR_RETURN(made->audit_log_, AuditLog::Open(flags.audit_log, &made->clock_),
                     "--audit_log");
    if (flags.tls.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(made->tls_, WatchedTls::Create(flags.tls, flags.trust_domain, &made->clock_),
                     "TLS files");
    made->identity_ = made->tls_->material().identity;
    MutexLock reload_lock(&made->reload_mutex_);
    MutexLock lock(&made->mutex_);
    made->expires_ = made->tls_->material().not_after;
    if (!flags.tokens.empty()) {
      ASSIGN_OR_RETURN(TokenTable table, made->LoadTokens(&made->tokens_text_), "--tokens");
      made->tokens_ = std::make_shared<const TokenTable>(std::move(table));
    }
    if (!flags.token_file.empty()) {
      ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(flags.token_file, true),
                       "--token_file");
      ASSIGN_OR_RETURN(made->token_, ParseToken(text), "--token_file \"%s\"", flags.token_file);
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(OfConfiguration(fill()));
  if (made->tls_ != nullptr) {
    made->watcher_ = std::thread([credentials = made.get()] { credentials->Watch(); });
  }
  return std::shared_ptr<ProcessCredentials>(std::move(made));
}

absl::Time ProcessCredentials::expires() const {
  MutexLock lock(&mutex_);
  return expires_;
}

std::shared_ptr<grpc::ChannelCredentials> ProcessCredentials::ChannelTo(RoleSet peers) const {
  if (tls_ == nullptr) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(tls_->provider());
  options.watch_root_certs();
  if (tls_->has_certificate()) options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  // Of the host's name; the verifier looks at the role.
  options.set_check_call_host(false);
  options.set_certificate_verifier(MakePeerVerifier(peers, flags_.trust_domain));
  std::shared_ptr<grpc::ChannelCredentials> channel = grpc::experimental::TlsCredentials(options);
  if (token_.empty()) return channel;
  // gRPC sends them over encrypted connections only.
  return grpc::CompositeChannelCredentials(channel, grpc::AccessTokenCredentials(token_));
}

std::shared_ptr<grpc::ServerCredentials> ProcessCredentials::Server(RefusalCounts* counts) {
  if (tls_ == nullptr) return grpc::InsecureServerCredentials();
  grpc::experimental::TlsServerCredentialsOptions options(tls_->provider());
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  // With tokens a client may come without a certificate; one that it shows must be good.
  options.set_cert_request_type(flags_.tokens.empty()
                                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                    : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  std::shared_ptr<grpc::ServerCredentials> server =
      grpc::experimental::TlsServerCredentials(options);
  server->SetAuthMetadataProcessor(std::make_shared<Authorizer>(this, counts));
  return server;
}

absl::StatusOr<Identity> ProcessCredentials::Identify(
    const grpc::AuthContext& context, std::optional<absl::string_view> authorization) const {
  std::vector<std::string> uris;
  for (const grpc::string_ref& uri : context.FindPropertyValues(kUriProperty)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  const bool has_certificate = !context.FindPropertyValues("x509_pem_cert").empty();
  if (has_certificate) {
    absl::StatusOr<Identity> identity = IdentityFromUris(uris, flags_.trust_domain);
    if (!identity.ok()) return absl::UnauthenticatedError(identity.status().message());
    return identity;
  }
  std::shared_ptr<const TokenTable> tokens;
  {
    MutexLock lock(&mutex_);
    tokens = tokens_;
  }
  if (tokens == nullptr || !authorization.has_value()) {
    return absl::UnauthenticatedError(absl::StrCat("found no credentials, expected a certificate",
                                                   tokens != nullptr ? " or a token" : ""));
  }
  absl::string_view token = *authorization;
  if (!absl::ConsumePrefix(&token, "Bearer ")) {
    return absl::UnauthenticatedError("authorization: expected \"Bearer TOKEN\"");
  }
  return tokens->Find(token, clock_.Wall());
}

absl::Status ProcessCredentials::Authorize(const grpc::AuthContext& context,
                                           absl::string_view method,
                                           std::optional<absl::string_view> authorization) const {
  const absl::StatusOr<Identity> identity = Identify(context, authorization);
  const absl::Status status = identity.ok() ? CheckMethod(*identity, method) : identity.status();
  if (status.ok()) return status;
  AuditEvent event;
  event.who = identity.ok() ? identity->ToString() : "unknown";
  event.method = std::string(method);
  event.result = status;
  audit_log_->WriteRefusal(event);
  return status;
}

Caller ProcessCredentials::CallerOf(const grpc::ServerContextBase& context) const {
  if (tls_ == nullptr) return Caller();
  const absl::StatusOr<Identity> identity =
      Identify(*context.auth_context(), Find(context.client_metadata(), "authorization"));
  // A token can have gone since the call was let through: then its holder is nobody any more, with
  // a name that owns nothing.
  return Caller(identity.ok() ? *identity : Identity{Role::kClient, "-"});
}

absl::StatusOr<TokenTable> ProcessCredentials::LoadTokens(std::string* text) const {
  ASSIGN_OR_RETURN(*text, ReadSmallFile(flags_.tokens, true));
  absl::StatusOr<TokenTable> table = TokenTable::Parse(*text);
  if (!table.ok()) return WithContext(table.status(), absl::StrCat("\"", flags_.tokens, "\""));
  return table;
}

void ProcessCredentials::ReloadTokens() {
  std::string text;
  absl::StatusOr<TokenTable> table = LoadTokens(&text);
  AuditEvent event{"the process", "", "reload tokens", flags_.tokens, table.status()};
  if (!table.ok()) {
    std::string fault(table.status().message());
    if (fault != std::exchange(tokens_fault_, fault)) audit_log_->Write(event);
    return;
  }
  tokens_fault_.clear();
  if (text == tokens_text_) return;
  tokens_text_ = std::move(text);
  event.resource = absl::StrCat(flags_.tokens, ": ", table->size(), " tokens");
  tokens_news_ = event.resource;
  {
    MutexLock lock(&mutex_);
    tokens_ = std::make_shared<const TokenTable>(*std::move(table));
  }
  audit_log_->Write(event);
}

void ProcessCredentials::Reload() {
  if (tls_ == nullptr) return;
  MutexLock lock(&reload_mutex_);
  const absl::StatusOr<std::string> taken = tls_->Reload();
  if (!taken.ok()) {
    LogWarning("tls files refused", "reason=%s", LogValue(taken.status().message()));
  } else if (!taken->empty()) {
    LogInfo("tls files taken", "what=%s", LogValue(*taken));
    tls_news_ = *taken;
  }
  const absl::Time end = tls_->material().not_after;
  {
    MutexLock expires_lock(&mutex_);
    expires_ = end;
  }
  const bool near_end = end - clock_.Wall() < kWarnBeforeEnd;
  if (near_end && !warned_of_end_) {
    LogWarning("certificate ends soon", "expires=%s",
               absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", end, absl::UTCTimeZone()));
  }
  warned_of_end_ = near_end;
  if (!flags_.tokens.empty()) ReloadTokens();
}

absl::StatusOr<std::string> ProcessCredentials::TakeNews() {
  if (tls_ == nullptr) return "";
  MutexLock lock(&reload_mutex_);
  const std::string faults = Joined(tls_->fault(), tokens_fault_);
  if (!faults.empty()) return absl::FailedPreconditionError(faults);
  const std::string news = Joined(tls_news_, tokens_news_);
  tls_news_.clear();
  tokens_news_.clear();
  return news;
}

void ProcessCredentials::Watch() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (!stopped_) stop_now_.WaitFor(&mutex_, kLookInterval);
      if (stopped_) return;
    }
    Reload();
  }
}

void SetProcessCredentials(std::shared_ptr<ProcessCredentials> credentials) {
  Process& process = TheProcess();
  MutexLock lock(&process.mutex);
  process.credentials = std::move(credentials);
}

std::shared_ptr<ProcessCredentials> CurrentProcessCredentials() {
  Process& process = TheProcess();
  MutexLock lock(&process.mutex);
  return process.credentials;
}

Caller CallerIdentity(const grpc::ServerContextBase& context) {
  return CurrentProcessCredentials()->CallerOf(context);
}

std::string HolderOf(const grpc::ServerContextBase& context) {
  const Caller caller = CallerIdentity(context);
  if (!caller.owner().empty()) return caller.ToString();
  return HostOfPeer(context.peer()).value_or("");
}

void Audit(const grpc::ServerContextBase& context, absl::string_view method, std::string resource,
           const absl::Status& result) {
  const std::shared_ptr<ProcessCredentials> credentials = CurrentProcessCredentials();
  const AuditEvent event = {credentials->CallerOf(context).ToString(), context.peer(),
                            std::string(method), std::move(resource), result};
  // What fails costs its caller nothing, and may come as often as a refusal of rights.
  if (!result.ok()) {
    credentials->audit_log()->WriteRefusal(event);
  } else {
    credentials->audit_log()->Write(event);
  }
}

}  // namespace sangam
