#include "common/rpc/process_credentials.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/certificate_authority.h"
#include "common/base/exit_code.h"
#include "common/base/refusal_counts.h"
#include "common/rpc/channel.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/server_runner.h"
#include "common/security/caller.h"
#include "common/security/security_flags.h"
#include "common/security/token_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.grpc.pb.h"
#include "tests/testing/raw_http2.h"
#include "tests/testing/test_certificates.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Answers with who called.
class WhoService final : public v1::JobService::Service {
 public:
  explicit WhoService(const ProcessCredentials* credentials) : credentials_(*credentials) {}

  grpc::Status GetCluster(grpc::ServerContext* context, const v1::GetClusterRequest*,
                          v1::Cluster* response) override {
    response->add_daemon()->set_name(credentials_.CallerOf(*context).ToString());
    return grpc::Status::OK;
  }
  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest*,
                         v1::SubmitJobResponse*) override {
    ++submitted_;
    return grpc::Status::OK;
  }
  int submitted() const { return submitted_; }

 private:
  const ProcessCredentials& credentials_;
  std::atomic<int> submitted_{0};
};

struct TestServer {
  explicit TestServer(const SecurityFlags& flags,
                      RoleSet roles = RoleSet(Role::kWorker, Role::kServer, Role::kCoordinator)) {
    auto made = ProcessCredentials::ForDaemon(flags, roles);
    EXPECT_TRUE(made.ok()) << made.status();
    credentials = *made;
    service = std::make_unique<WhoService>(credentials.get());
    ServerRunner::Options options;
    options.listen = "127.0.0.1:0";
    options.credentials = credentials;
    options.counts = &counts;
    auto started = ServerRunner::Start(
        options, [this](grpc::ServerBuilder* builder) { builder->RegisterService(service.get()); });
    EXPECT_TRUE(started.ok()) << started.status();
    runner = *std::move(started);
  }
  std::string address() const { return ToString(runner->address()); }

  std::shared_ptr<ProcessCredentials> credentials;
  RefusalCounts counts;
  std::unique_ptr<WhoService> service;
  std::unique_ptr<ServerRunner> runner;
};

SecurityFlags With(const TlsFiles& files) {
  SecurityFlags flags;
  flags.tls = files;
  return flags;
}

std::shared_ptr<ProcessCredentials> Client(const SecurityFlags& flags) {
  auto made = ProcessCredentials::ForClient(flags);
  EXPECT_TRUE(made.ok()) << made.status();
  return *made;
}

struct Answer {
  grpc::Status status;
  std::string text;         // who the server thinks it was
  std::string certificate;  // of the server
};

Answer Ask(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::JobService::NewStub(channel);
  grpc::ClientContext context;
  SetTimeout(absl::Seconds(10), &context);
  v1::Cluster cluster;
  Answer answer;
  answer.status = stub->GetCluster(&context, v1::GetClusterRequest(), &cluster);
  if (!answer.status.ok()) {
    answer.text = answer.status.error_message();
    return answer;
  }
  answer.text = cluster.daemon(0).name();
  const auto certificate = context.auth_context()->FindPropertyValues("x509_pem_cert");
  if (!certificate.empty()) answer.certificate.assign(certificate[0].data(), certificate[0].size());
  return answer;
}

Answer Ask(const std::string& address, const std::shared_ptr<ProcessCredentials>& credentials) {
  return Ask(*MakeControlChannel(address, credentials));
}

// A channel of somebody who does not look at the own files.
std::shared_ptr<grpc::Channel> CarelessChannel(const std::string& address,
                                               const std::string& authority, const KeyPair& own) {
  namespace tls = grpc::experimental;
  tls::TlsChannelCredentialsOptions options;
  std::vector<tls::IdentityKeyCertPair> pairs;
  if (!own.key.empty()) pairs.push_back({own.key, own.certificate});
  options.set_certificate_provider(
      std::make_shared<tls::StaticDataCertificateProvider>(authority, pairs));
  options.watch_root_certs();
  if (!own.key.empty()) options.watch_identity_key_cert_pairs();
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  return grpc::CreateChannel(address, tls::TlsCredentials(options));
}

// One call with raw bytes of a method that need not exist.
grpc::Status RawCall(const std::string& address,
                     const std::shared_ptr<ProcessCredentials>& credentials,
                     const std::string& method, const std::string& request = "") {
  grpc::GenericStub stub(*MakeControlChannel(address, credentials));
  grpc::ClientContext context;
  SetTimeout(absl::Seconds(10), &context);
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  const grpc::ByteBuffer message(&slice, 1);
  grpc::ByteBuffer answer;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, method, message, &queue);
  call->StartCall();
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

TEST(ProcessCredentialsTest, BothSidesShowCertificates) {
  TestCertificates certificates;
  const TestServer server(With(certificates.Issue("coordinator")));
  const Answer answer = Ask(server.address(), Client(With(certificates.Issue("client", "alice"))));
  EXPECT_TRUE(answer.status.ok()) << answer.text;
  EXPECT_EQ(answer.text, "client/alice");
}

TEST(ProcessCredentialsTest, PlaintextBelievesEverybody) {
  const TestServer server{SecurityFlags()};
  const Answer answer = Ask(server.address(), Client(SecurityFlags()));
  EXPECT_TRUE(answer.status.ok()) << answer.text;
  EXPECT_EQ(answer.text, "anyone");
}

TEST(ProcessCredentialsTest, WrongRoleIsNamedWithTheMethodAndReachesNoHandler) {
  TestCertificates certificates;
  const TestServer server(With(certificates.Issue("coordinator")));
  const auto worker = Client(With(certificates.Issue("worker", "w0")));
  const auto stub = v1::JobService::NewStub(*MakeControlChannel(server.address(), worker));
  grpc::ClientContext context;
  SetTimeout(absl::Seconds(10), &context);
  v1::SubmitJobResponse response;
  const grpc::Status status = stub->SubmitJob(&context, v1::SubmitJobRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("role worker"), HasSubstr("/sangam.v1.JobService/SubmitJob"),
                    HasSubstr("client or admin")));
  EXPECT_EQ(server.service->submitted(), 0);
}

TEST(ProcessCredentialsTest, RightsHoldForHealthReflectionAndWhatDoesNotExist) {
  TestCertificates certificates;
  const TestServer server(With(certificates.Issue("coordinator")));
  const auto client = Client(With(certificates.Issue("client", "alice")));
  const auto admin = Client(With(certificates.Issue("admin")));
  const std::string health = "/grpc.health.v1.Health/Check";
  const std::string reflection = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  EXPECT_EQ(RawCall(server.address(), client, health).error_code(), grpc::StatusCode::OK);
  EXPECT_EQ(RawCall(server.address(), client, reflection).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(RawCall(server.address(), admin, reflection, std::string("\x3a\x00", 2)).error_code(),
            grpc::StatusCode::OK);
  for (const char* unknown :
       {"/sangam.v1.JobService/DropAll", "/x", "/sangam.v1.JobService/submitjob",
        "/sangam.v1.JobService/SubmitJob/"}) {
    EXPECT_EQ(RawCall(server.address(), admin, unknown).error_code(),
              grpc::StatusCode::PERMISSION_DENIED)
        << unknown;
  }
}

TEST(ProcessCredentialsTest, HandshakeFailsForWhoIsNotOfTheCluster) {
  TestCertificates certificates;
  TestCertificates foreign;
  const TestServer server(With(certificates.Issue("coordinator")));
  const std::string& ca = certificates.authority().certificate;
  const auto code = [&](const std::string& authority, const KeyPair& own) {
    return Ask(CarelessChannel(server.address(), authority, own)).status.error_code();
  };
  // The control: this channel works with a good certificate.
  EXPECT_EQ(code(ca, certificates.Make("client", "alice")), grpc::StatusCode::OK);
  EXPECT_EQ(code(ca, KeyPair()), grpc::StatusCode::UNAVAILABLE) << "no certificate";
  EXPECT_EQ(code(ca, foreign.Make("client", "alice")), grpc::StatusCode::UNAVAILABLE)
      << "another authority's certificate";
  EXPECT_EQ(code(foreign.authority().certificate, certificates.Make("client", "alice")),
            grpc::StatusCode::UNAVAILABLE)
      << "the client trusts another authority";
  EXPECT_EQ(code(ca, certificates.Make("client", "a", -absl::Hours(2), -absl::Hours(1))),
            grpc::StatusCode::UNAVAILABLE)
      << "expired";
  EXPECT_EQ(code(ca, certificates.Make("client", "a", absl::Hours(1), absl::Hours(2))),
            grpc::StatusCode::UNAVAILABLE)
      << "not valid yet";
  EXPECT_EQ(Ask(server.address(), Client(SecurityFlags())).status.error_code(),
            grpc::StatusCode::UNAVAILABLE)
      << "plain text";
}

TEST(ProcessCredentialsTest, AnotherTrustDomainIsNobody) {
  TestCertificates certificates("other");
  SecurityFlags other = With(certificates.Issue("client", "alice"));
  other.trust_domain = "other";
  SecurityFlags server_flags = With(certificates.Issue("coordinator"));
  server_flags.trust_domain = "other";
  const TestServer server(server_flags);
  EXPECT_TRUE(Ask(server.address(), Client(other)).status.ok());
  // The same authority signs for two domains.
  CertificateRequest request;
  request.trust_domain = "elsewhere";
  request.role = "admin";
  request.not_before = absl::Now() - absl::Hours(1);
  request.not_after = absl::Now() + absl::Hours(1);
  const auto foreign = IssueCertificate(certificates.authority(), request);
  if (!foreign.ok()) return;  // An authority of one domain: nothing to refuse.
  const Answer answer =
      Ask(CarelessChannel(server.address(), certificates.authority().certificate, *foreign));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(answer.text, HasSubstr("spiffe://elsewhere"));
}

TEST(ProcessCredentialsTest, ChannelsLookAtTheRoleOfTheServer) {
  TestCertificates certificates;
  const TestServer coordinator(With(certificates.Issue("coordinator")));
  const TestServer server(With(certificates.Issue("server", "s0")));
  const TestServer worker(With(certificates.Issue("worker", "w0")));
  const auto client = Client(With(certificates.Issue("client", "alice")));
  const auto data = [&](const TestServer& to, RoleSet peers) {
    return Ask(CreateDataChannel(to.address(), 1, peers, client)).status.error_code();
  };
  EXPECT_TRUE(Ask(coordinator.address(), client).status.ok());
  const Answer refused = Ask(server.address(), client);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(data(coordinator, kDataServers), grpc::StatusCode::OK);
  EXPECT_EQ(data(server, kDataServers), grpc::StatusCode::OK);
  EXPECT_EQ(data(worker, kDataServers), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(data(worker, kDataWorkers), grpc::StatusCode::OK);
  EXPECT_EQ(data(server, kDataWorkers), grpc::StatusCode::UNAVAILABLE);
}

// The certificate of a person may connect, but not serve.
TEST(ProcessCredentialsTest, ACertificateOfAClientServesNobody) {
  TestCertificates certificates;
  const SecurityFlags flags = With(certificates.Issue("client", "alice"));
  const auto refused = ProcessCredentials::ForDaemon(flags);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("found a certificate for client/alice, expected one for a worker"));
  const TestServer server(flags, RoleSet(Role::kClient));
  const Answer answer = Ask(CarelessChannel(server.address(), certificates.authority().certificate,
                                            certificates.Make("client", "bob")));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(ProcessCredentialsTest, TokensStandInForCertificatesOfClients) {
  TestCertificates certificates;
  const auto alice = MakeToken({Role::kClient, "alice"}, absl::InfiniteFuture());
  const auto old = MakeToken({Role::kClient, "old"}, absl::Now() - absl::Seconds(1));
  const auto stranger = MakeToken({Role::kAdmin, "mallory"}, absl::InfiniteFuture());
  ASSERT_TRUE(alice.ok() && old.ok() && stranger.ok());
  SecurityFlags server_flags = With(certificates.Issue("coordinator"));
  server_flags.tokens = certificates.folder() + "/tokens";
  server_flags.audit_log = certificates.folder() + "/audit";
  WriteTestFile(server_flags.tokens,
                absl::StrCat("# people\n", alice->line, "\n", old->line, "\n"));
  const TestServer server(server_flags);
  const auto ask = [&](const std::string& token) {
    SecurityFlags flags;
    flags.tls.authority = certificates.authority_file();
    flags.token_file = certificates.folder() + "/token";
    WriteTestFile(flags.token_file, token + "\n");
    return Ask(server.address(), Client(flags));
  };
  const Answer good = ask(alice->token);
  EXPECT_TRUE(good.status.ok()) << good.text;
  EXPECT_EQ(good.text, "client/alice");

  const Answer unknown = ask(stranger->token);
  EXPECT_EQ(unknown.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(unknown.text, HasSubstr("not known"));
  const Answer expired = ask(old->token);
  EXPECT_EQ(expired.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(expired.text, HasSubstr("expired"));

  // Without anything, and with what is no token.
  const auto nobody =
      CarelessChannel(server.address(), certificates.authority().certificate, KeyPair());
  EXPECT_EQ(Ask(nobody).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  for (const std::string& shape :
       {std::string(), std::string("Bearer"), std::string("Bearer "), alice->token,
        "bearer " + alice->token, "Bearer " + alice->token.substr(0, alice->token.size() - 1),
        "Bearer " + alice->token + "0", "Bearer  " + alice->token, "Bearer " + alice->line,
        "Basic " + alice->token}) {
    const auto stub = v1::JobService::NewStub(nobody);
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(10), &context);
    context.AddMetadata("authorization", shape);
    v1::Cluster cluster;
    EXPECT_EQ(stub->GetCluster(&context, v1::GetClusterRequest(), &cluster).error_code(),
              grpc::StatusCode::UNAUTHENTICATED)
        << "'" << shape << "'";
  }
  // A certificate still counts, and one that does not verify is refused.
  EXPECT_EQ(Ask(server.address(), Client(With(certificates.Issue("viewer", "eve")))).text,
            "viewer/eve");
  TestCertificates foreign;
  EXPECT_EQ(Ask(CarelessChannel(server.address(), certificates.authority().certificate,
                                foreign.Make("admin")))
                .status.error_code(),
            grpc::StatusCode::UNAVAILABLE);

  // A token that is taken from the file is worth nothing a moment later.
  WriteTestFile(server_flags.tokens, old->line + "\n");
  server.credentials->Reload();
  EXPECT_EQ(ask(alice->token).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  // A file with a fault changes nothing.
  WriteTestFile(server_flags.tokens, alice->line + "\n");
  server.credentials->Reload();
  WriteTestFile(server_flags.tokens, "nonsense\n");
  server.credentials->Reload();
  EXPECT_TRUE(ask(alice->token).status.ok());

  EXPECT_GE(server.counts.Get(Refusal::kCredentials), 10u);
  EXPECT_EQ(server.counts.Get(Refusal::kRights), 0u);
  const std::string audit = ReadFile(server_flags.audit_log);
  EXPECT_THAT(audit, HasSubstr("\"result\":\"UNAUTHENTICATED\""));
  EXPECT_THAT(audit, HasSubstr("reload tokens"));
  EXPECT_THAT(audit, Not(HasSubstr(alice->token)));
  EXPECT_THAT(audit, Not(HasSubstr(stranger->token)));
}

TEST(ProcessCredentialsTest, WhatWasTakenAndWhatIsWrongIsToldToWhoAsks) {
  TestCertificates certificates;
  const auto token = MakeToken({Role::kClient, "alice"}, absl::InfiniteFuture());
  ASSERT_TRUE(token.ok());
  SecurityFlags flags = With(certificates.Issue("server", "s1"));
  flags.tokens = certificates.folder() + "/tokens";
  flags.audit_log = certificates.folder() + "/audit";
  WriteTestFile(flags.tokens, "# nobody\n");
  const auto credentials = ProcessCredentials::ForDaemon(flags).value();
  EXPECT_EQ(credentials->TakeNews().value(), "");

  certificates.IssueInto(flags.tls, "server", "s1");
  credentials->Reload();
  const std::string news = credentials->TakeNews().value();
  EXPECT_THAT(news, AllOf(HasSubstr(flags.tls.certificate), HasSubstr(flags.tls.key),
                          HasSubstr(" for server/s1, serial "), HasSubstr(", until 20"),
                          Not(HasSubstr("authorities"))));
  EXPECT_EQ(credentials->TakeNews().value(), "") << "once";

  // Two files at once, and one of a second authority.
  TestCertificates other;
  WriteTestFile(flags.tls.authority,
                certificates.authority().certificate + other.authority().certificate);
  WriteTestFile(flags.tokens, token->line + "\n");
  credentials->Reload();
  EXPECT_EQ(credentials->TakeNews().value(),
            absl::StrCat("\"", flags.tls.authority, "\" with 2 authorities; ", flags.tokens,
                         ": 1 tokens"));

  // As long as it is so.
  WriteTestFile(flags.tls.key, "nonsense");
  credentials->Reload();
  for (int i = 0; i < 2; ++i) {
    const absl::Status wrong = credentials->TakeNews().status();
    EXPECT_EQ(wrong.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(wrong.message()), HasSubstr(flags.tls.key));
  }
  certificates.IssueInto(flags.tls, "server", "s1");
  credentials->Reload();
  EXPECT_THAT(credentials->TakeNews().value(), HasSubstr("server/s1"));
}

TEST(ProcessCredentialsTest, StrangersHaveAnAddressInTheAuditLog) {
  TestCertificates certificates;
  SecurityFlags flags = With(certificates.Issue("coordinator"));
  flags.audit_log = certificates.folder() + "/audit";
  TestServer server(flags);
  // Without a certificate of the authority there is no handshake, and so no call.
  TestCertificates foreign;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Ask(CarelessChannel(server.address(), certificates.authority().certificate,
                                  foreign.Make("admin")))
                  .status.error_code(),
              grpc::StatusCode::UNAVAILABLE);
  }
  RawHttp2 plain(server.runner->address().port);
  const std::string plain_peer = absl::StrCat("\"peer\":\"ipv4:127.0.0.1:", plain.local_port());
  plain.SendPreface();
  EXPECT_TRUE(plain.AwaitClose(absl::Seconds(20)).has_value());
  EXPECT_EQ(server.counts.Get(Refusal::kNotTls), 1u);

  const std::vector<std::string> lines = absl::StrSplit(ReadFile(flags.audit_log), '\n');
  ASSERT_EQ(lines.size(), 3u) << "the host once in a long time, then what is no TLS, each time";
  EXPECT_THAT(lines[0], AllOf(HasSubstr("\"who\":\"unknown\",\"peer\":\"ipv4:127.0.0.1:"),
                              HasSubstr("\"method\":\"connect\""), HasSubstr("\"OK\"")));
  EXPECT_THAT(lines[1], AllOf(HasSubstr(plain_peer), HasSubstr("\"method\":\"connect\""),
                              HasSubstr("UNAUTHENTICATED"), HasSubstr("expected TLS")));
}

TEST(ProcessCredentialsTest, TokensAreForTlsAndFilesForTheirOwner) {
  TestCertificates certificates;
  const auto alice = MakeToken({Role::kClient, "alice"}, absl::InfiniteFuture());
  ASSERT_TRUE(alice.ok());
  SecurityFlags flags;
  flags.token_file = certificates.folder() + "/token";
  WriteTestFile(flags.token_file, alice->token);
  const auto plain = ProcessCredentials::ForClient(flags);
  EXPECT_EQ(plain.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plain.status().message()), HasSubstr("--tls_ca"));
  flags.tls.authority = certificates.authority_file();
  EXPECT_TRUE(ProcessCredentials::ForClient(flags).ok());
  WriteTestFile(flags.token_file, alice->token, 0644);
  const auto open = ProcessCredentials::ForClient(flags);
  EXPECT_EQ(open.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(open.status().message()), HasSubstr("chmod 600"));
  EXPECT_EQ(DaemonExitCodeFor(open.status()), ExitCode::kBadConfiguration);
  WriteTestFile(flags.token_file, "hunter2");
  const auto shape = ProcessCredentials::ForClient(flags);
  EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(shape.status().message()), Not(HasSubstr("hunter2")));
}

// Calls go on through the rotation, and new connections see the new certificate.
TEST(ProcessCredentialsTest, CertificatesAreTakenAnewWithoutAFailedCall) {
  TestCertificates certificates;
  const TlsFiles files = certificates.Issue("coordinator", "c");
  const TestServer server(With(files));
  const TlsFiles client_files = certificates.Issue("client", "alice");
  const auto client = Client(With(client_files));
  const auto old_channel = *MakeControlChannel(server.address(), client);
  const std::string before = Ask(old_channel).certificate;
  ASSERT_THAT(before, HasSubstr("BEGIN CERTIFICATE"));

  // First the key alone, as a writer in the middle of its work leaves it.
  const KeyPair next = certificates.Make("coordinator", "c");
  WriteTestFile(files.key, next.key);
  std::atomic<bool> done{false};
  std::atomic<int> failed{0};
  std::atomic<int> made{0};
  std::thread caller([&] {
    while (!done.load()) {
      // One on the old connection, one on a new one.
      if (!Ask(old_channel).status.ok()) ++failed;
      if (!Ask(server.address(), client).status.ok()) ++failed;
      ++made;
      absl::SleepFor(absl::Milliseconds(20));
    }
  });
  absl::SleepFor(absl::Milliseconds(2500));
  EXPECT_EQ(Ask(server.address(), client).certificate, before) << "the old pair stays";
  WriteTestFile(files.certificate, next.certificate);
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  std::string after = before;
  while (after == before && absl::Now() < deadline) {
    after = Ask(server.address(), client).certificate;
  }
  EXPECT_EQ(after, next.certificate);
  // The client's too.
  certificates.IssueInto(client_files, "client", "alice");
  absl::SleepFor(absl::Milliseconds(2500));
  done.store(true);
  caller.join();
  EXPECT_EQ(failed.load(), 0);
  EXPECT_GT(made.load(), 20);
}

TEST(ProcessCredentialsTest, AnotherIdentityNeedsAnotherProcess) {
  TestCertificates certificates;
  const TlsFiles files = certificates.Issue("coordinator", "c");
  const TestServer server(With(files));
  const auto client = Client(With(certificates.Issue("client", "alice")));
  const std::string before = Ask(server.address(), client).certificate;
  certificates.IssueInto(files, "worker", "w");
  absl::SleepFor(absl::Milliseconds(2500));
  const Answer answer = Ask(server.address(), client);
  EXPECT_TRUE(answer.status.ok()) << answer.text;
  EXPECT_EQ(answer.certificate, before);
}

// Both authorities are trusted while the certificates change.
TEST(ProcessCredentialsTest, AuthoritiesRollOver) {
  TestCertificates first;
  TestCertificates second;
  const TestServer server(With(first.Issue("coordinator")));
  SecurityFlags both = With(second.Issue("client", "alice"));
  both.tls.authority = second.folder() + "/both";
  const std::string bundle = first.authority().certificate + second.authority().certificate;
  WriteTestFile(both.tls.authority, bundle);
  EXPECT_FALSE(Ask(server.address(), Client(both)).status.ok());
  WriteTestFile(first.authority_file(), bundle);
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  Answer answer = Ask(server.address(), Client(both));
  while (!answer.status.ok() && absl::Now() < deadline)
    answer = Ask(server.address(), Client(both));
  EXPECT_TRUE(answer.status.ok()) << answer.text;
}

TEST(ProcessCredentialsTest, AServerWithoutTlsListensOnThisMachineAlone) {
  ServerRunner::Options options;
  options.listen = "0.0.0.0:0";
  const auto nothing = [](grpc::ServerBuilder*) {};
  const auto refused = ServerRunner::Start(options, nothing);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DaemonExitCodeFor(refused.status()), ExitCode::kBadConfiguration);
  SecurityFlags open;
  open.insecure_allow_remote = true;
  options.credentials = *ProcessCredentials::ForDaemon(open);
  EXPECT_TRUE(ServerRunner::Start(options, nothing).ok());
  TestCertificates certificates;
  options.credentials = *ProcessCredentials::ForDaemon(With(certificates.Issue("server")));
  EXPECT_TRUE(ServerRunner::Start(options, nothing).ok());
}

TEST(ProcessCredentialsTest, TheProcessHasOneIdentity) {
  EXPECT_FALSE(CurrentProcessCredentials()->encrypted());
  TestCertificates certificates;
  const auto mine = Client(With(certificates.Issue("client", "alice")));
  SetProcessCredentials(mine);
  EXPECT_EQ(CurrentProcessCredentials(), mine);
  const TestServer server(With(certificates.Issue("coordinator")));
  EXPECT_EQ(Ask(*MakeControlChannel(server.address())).text, "client/alice");
  SetProcessCredentials(std::make_shared<ProcessCredentials>());
}

}  // namespace
}  // namespace sangam
