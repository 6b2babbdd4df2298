// A cluster under TLS: the same bits as in plaintext, and nothing for those who are not of it. Real
// daemons.
#include <signal.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/certificate_authority.h"
#include "common/security/tls_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/test_certificates.h"

namespace sangam::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kDeadline = absl::Seconds(120);

using Flags = std::vector<std::string>;

Flags TlsFlags(const TlsFiles& files) {
  return {absl::StrCat("--tls_cert=", files.certificate), absl::StrCat("--tls_key=", files.key),
          absl::StrCat("--tls_ca=", files.authority)};
}

class SecurityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = FreshFolder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    data_ = FreshFolder("security-data");
    WriteTestData(data_, 200, 70);
  }

  // Certificates that stay the same for a daemon.
  TlsFiles FilesOf(const std::string& role, const std::string& name) {
    const std::string key = absl::StrCat(role, "/", name);
    for (const auto& [known, files] : issued_) {
      if (known == key) return files;
    }
    issued_.emplace_back(key, certificates_.Issue(role, name));
    return issued_.back().second;
  }

  std::unique_ptr<Cluster> TlsCluster(const Flags& coordinator_flags = {},
                                      const std::string& name = "tls") {
    Cluster::Options options;
    options.folder = FreshFolder(absl::StrCat("security-", name));
    options.data_root = data_;
    options.lease = "5s";
    options.identity = [this](const std::string& role, const std::string& who) {
      Flags flags = TlsFlags(FilesOf(role, who));
      if (role == "server" && !tokens_.empty()) flags.push_back(absl::StrCat("--tokens=", tokens_));
      return flags;
    };
    auto cluster = std::make_unique<Cluster>(std::move(options));
    cluster->StartCoordinator("coordinator", coordinator_flags);
    return cluster;
  }

  static void StartDaemons(Cluster* cluster) {
    cluster->StartServer("s1");
    cluster->StartWorker("w1");
    cluster->StartWorker("w2");
  }

  // Of a job that has run to its end.
  std::string Weights(Cluster* cluster, const TestJob& job) {
    cluster->Submit(JobText(job));
    const Finished waited = cluster->Client({"wait", job.name, "--timeout=100s"}, kDeadline);
    EXPECT_EQ(waited.exit_code, 0) << waited.output;
    const std::string path = absl::StrCat(folder_, "/weights");
    const Finished exported = cluster->Client({"export", job.name, "--out", path}, kDeadline);
    EXPECT_EQ(exported.exit_code, 0) << exported.output;
    const auto weights = ReadFile(path);
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? *weights : "";
  }

  Finished As(Cluster* cluster, Flags arguments, const Flags& identity) {
    arguments.insert(arguments.end(), identity.begin(), identity.end());
    return cluster->Client(arguments, kDeadline);
  }

  TestCertificates certificates_;
  std::vector<std::pair<std::string, TlsFiles>> issued_;
  std::string folder_;
  std::string data_;
  std::string tokens_;  // of servers; the coordinator's are flags
};

TEST_F(SecurityTest, TheSameBitsAsInPlaintext) {
  TestJob data_parallel;
  data_parallel.name = "replicas";
  data_parallel.workers = 2;
  TestJob pipeline = data_parallel;
  pipeline.name = "pipeline";
  pipeline.more = "strategy: MODEL_PARALLEL";

  Cluster plain({FreshFolder("security-plain"), data_, "5s"});
  plain.StartCoordinator("coordinator");
  StartDaemons(&plain);
  const auto secret = TlsCluster();
  StartDaemons(secret.get());
  for (const TestJob& job : {data_parallel, pipeline}) {
    const std::string expected = Weights(&plain, job);
    ASSERT_FALSE(expected.empty());
    EXPECT_TRUE(Weights(secret.get(), job) == expected) << job.name;
  }
}

TEST_F(SecurityTest, NothingForThoseWhoAreNotOfTheCluster) {
  const auto cluster = TlsCluster({absl::StrCat("--audit_log=", folder_, "/audit")});
  const Flags list = {"list", "--timeout=3s"};
  EXPECT_EQ(cluster->Client(list, kDeadline).exit_code, 0);
  // No certificate, plaintext, and one of another authority.
  const Finished plain = As(cluster.get(), list, {"--tls_ca="});
  EXPECT_EQ(plain.exit_code, 7) << plain.output;
  TestCertificates foreign;
  const Finished other = As(cluster.get(), list, TlsFlags(foreign.Issue("admin")));
  EXPECT_EQ(other.exit_code, 7) << other.output;
  // Certificates of daemons are none for people.
  for (const char* role : {"worker", "server", "coordinator"}) {
    const Finished refused = As(cluster.get(), list, TlsFlags(certificates_.Issue(role)));
    EXPECT_EQ(refused.exit_code, 6) << role << refused.output;
    EXPECT_THAT(refused.output, AllOf(HasSubstr(role), HasSubstr("ListJobs")));
  }
  const auto audit = ReadFile(absl::StrCat(folder_, "/audit"));
  ASSERT_TRUE(audit.ok()) << audit.status();
  EXPECT_THAT(*audit, HasSubstr("\"result\":\"PERMISSION_DENIED\""));
  // Those without a handshake have an address, if nothing else.
  EXPECT_THAT(*audit, HasSubstr("\"peer\":\"ipv4:127.0.0.1:"));
  EXPECT_THAT(*audit, AllOf(HasSubstr("\"method\":\"connect\""), HasSubstr("expected TLS")));
}

TEST_F(SecurityTest, DaemonsDoNotStartWithWhatIsWrong) {
  const auto start = [this](const std::string& binary, Flags flags) {
    flags.insert(flags.begin(), binary);
    flags.push_back("--start_deadline=5s");
    return RunCommand(flags, absl::Seconds(60));
  };
  const auto with = [](const TlsFiles& files, Flags more) {
    Flags flags = TlsFlags(files);
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  };
  for (const std::string& binary : {ServerBinary(), WorkerBinary()}) {
    const Finished open =
        start(binary, {"--listen=0.0.0.0:0", "--coordinator=127.0.0.1:1", "--name=x"});
    EXPECT_EQ(open.exit_code, 78) << open.output;
    EXPECT_THAT(open.output, AllOf(HasSubstr("--tls_cert"), HasSubstr("--insecure_allow_remote"),
                                   HasSubstr("127.0.0.1")));
  }
  const Flags join = {"--coordinator=127.0.0.1:1"};
  const Finished expired =
      start(WorkerBinary(),
            with(certificates_.Issue("worker", "w", -absl::Hours(2), -absl::Hours(1)), join));
  EXPECT_EQ(expired.exit_code, 78) << expired.output;
  EXPECT_THAT(expired.output, HasSubstr("has expired"));
  const Finished role = start(WorkerBinary(), with(certificates_.Issue("client", "alice"), join));
  EXPECT_EQ(role.exit_code, 78) << role.output;
  EXPECT_THAT(role.output, HasSubstr("found a certificate for client/alice"));
  TlsFiles loose = certificates_.Issue("worker");
  chmod(loose.key.c_str(), 0644);
  const Finished open_key = start(WorkerBinary(), with(loose, join));
  EXPECT_EQ(open_key.exit_code, 78) << open_key.output;
  EXPECT_THAT(open_key.output, HasSubstr("chmod 600"));
  const Finished half = start(ServerBinary(), {"--tls_cert=x", "--listen=127.0.0.1:0"});
  EXPECT_THAT(half.output, HasSubstr("all three or none"));
  EXPECT_NE(half.exit_code, 0);

  // A certificate with a name allows no other one.
  const auto cluster = TlsCluster();
  const Finished name = start(
      WorkerBinary(), with(certificates_.Issue("worker", "w1"),
                           {absl::StrCat("--coordinator=", cluster->address()), "--name=w2"}));
  EXPECT_NE(name.exit_code, 0);
  EXPECT_THAT(name.output, AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("w2")));
}

TEST_F(SecurityTest, PeopleHaveTheirOwnJobs) {
  const std::string tokens = absl::StrCat(folder_, "/tokens");
  tokens_ = tokens;
  std::string lines;
  std::vector<std::string> secrets;
  const auto token = [&](const std::string& name, const std::string& role) {
    const std::string file = absl::StrCat(folder_, "/", name, ".token");
    const Finished made =
        RunCommand({ClientBinary(), "tokens", "new", absl::StrCat("--name=", name),
                    absl::StrCat("--role=", role), absl::StrCat("--out=", file)},
                   kDeadline);
    EXPECT_EQ(made.exit_code, 0) << made.output;
    lines += made.output;
    const auto secret = ReadFile(file);
    EXPECT_TRUE(secret.ok()) << secret.status();
    secrets.push_back(secret->substr(0, secret->size() - 1));
    return Flags{absl::StrCat("--token_file=", file),
                 absl::StrCat("--tls_ca=", certificates_.authority_file())};
  };
  const Flags alice = token("alice", "client");
  const Flags bob = token("bob", "client");
  const Flags eve = token("eve", "viewer");
  const Flags root = token("root", "admin");
  WriteTestFile(tokens, lines);
  const std::string audit = absl::StrCat(folder_, "/audit");
  const auto cluster =
      TlsCluster({absl::StrCat("--tokens=", tokens), absl::StrCat("--audit_log=", audit)});
  StartDaemons(cluster.get());
  const auto code = [&](const Flags& arguments, const Flags& who) {
    const Finished run = As(cluster.get(), arguments, who);
    return run.exit_code;
  };

  TestJob job;
  job.name = "mine";
  job.workers = 2;
  const std::string file = absl::StrCat(folder_, "/job.textproto");
  WriteFile(file, JobText(job));
  const Finished submitted = As(cluster.get(), {"submit", file}, alice);
  ASSERT_EQ(submitted.exit_code, 0) << submitted.output;
  EXPECT_EQ(code({"wait", "mine", "--timeout=100s"}, alice), 0);

  const Flags exported = {"export", "mine", "--out", absl::StrCat(folder_, "/weights")};
  for (const Flags& verb :
       {Flags{"describe", "mine"}, Flags{"describe", "1"}, Flags{"logs", "1"}, exported}) {
    EXPECT_EQ(code(verb, alice), 0) << verb[0];
    EXPECT_EQ(code(verb, bob), 5) << verb[0];
    EXPECT_EQ(code(verb, eve), 0) << verb[0];
    EXPECT_EQ(code(verb, root), 0) << verb[0];
  }
  EXPECT_THAT(As(cluster.get(), {"list"}, alice).output, HasSubstr("mine"));
  EXPECT_THAT(As(cluster.get(), {"list"}, bob).output, Not(HasSubstr("mine")));
  EXPECT_THAT(As(cluster.get(), {"list"}, eve).output, HasSubstr("mine"));
  EXPECT_EQ(code({"submit", file}, eve), 6);
  for (const Flags& verb : {Flags{"cancel", "1"}, Flags{"delete", "1"}}) {
    EXPECT_EQ(code(verb, eve), 6) << verb[0];
    EXPECT_EQ(code(verb, bob), 5) << verb[0];
  }
  EXPECT_EQ(code({"delete", "1"}, alice), 0);

  // A token that is taken away is worth nothing a moment later.
  WriteTestFile(tokens, std::string(absl::StrSplit(lines, '\n').begin()->data(),
                                    absl::StrSplit(lines, '\n').begin()->size()) +
                            "\n");
  const absl::Time until = absl::Now() + absl::Seconds(20);
  while (code({"list"}, root) == 0 && absl::Now() < until) absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(code({"list"}, root), 6);
  EXPECT_EQ(code({"list"}, alice), 0);

  // The audit log knows who did what, and no file of the cluster has a secret.
  const auto written = ReadFile(audit);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_THAT(*written, AllOf(HasSubstr("\"who\":\"client/alice\""), HasSubstr("SubmitJob"),
                              HasSubstr("\"who\":\"worker/w1\""), HasSubstr("reload tokens")));
  for (const std::string& secret : secrets) {
    ASSERT_GT(secret.size(), 40u);
    EXPECT_THAT(*written, Not(HasSubstr(secret)));
    for (const char* daemon : {"coordinator", "s1", "w1", "w2"}) {
      EXPECT_THAT(cluster->daemon(daemon).Output(), Not(HasSubstr(secret))) << daemon;
    }
  }
}

TEST_F(SecurityTest, CertificatesAreReplacedWhileAJobTrains) {
  const auto cluster = TlsCluster();
  StartDaemons(cluster.get());
  TestJob job;
  job.name = "long";
  job.workers = 2;
  job.epochs = 1500;
  job.evaluation = "every_epochs: 1500";
  cluster->Submit(JobText(job));
  ASSERT_TRUE(cluster->AwaitDescription("long", "\"RUNNING\"", absl::Seconds(60)).ok());
  for (const auto& [key, files] : issued_) {
    const std::vector<std::string> who = absl::StrSplit(key, '/');
    certificates_.IssueInto(files, who[0], who[1]);
  }
  const absl::Time until = absl::Now() + absl::Seconds(30);
  for (const char* daemon : {"coordinator", "s1", "w1", "w2"}) {
    while (!absl::StrContains(cluster->daemon(daemon).Output(), "tls files taken") &&
           absl::Now() < until) {
      const Finished listed = cluster->Client({"list", "--timeout=1s"}, kDeadline);
      EXPECT_EQ(listed.exit_code, 0) << listed.output;
    }
    EXPECT_THAT(cluster->daemon(daemon).Output(), HasSubstr("tls files taken")) << daemon;
  }
  // Who asks what was taken is told, though a daemon looked before.
  for (const char* daemon : {"coordinator", "w1"}) {
    cluster->daemon(daemon).Signal(SIGHUP);
    while (!absl::StrContains(cluster->daemon(daemon).Output(), "reload: done") &&
           absl::Now() < until + absl::Seconds(10)) {
      absl::SleepFor(absl::Milliseconds(20));
    }
    EXPECT_THAT(cluster->daemon(daemon).Output(),
                AllOf(HasSubstr("reload: changed what=credentials"), HasSubstr(", until 20")))
        << daemon;
  }
  EXPECT_THAT(cluster->Client({"describe", "long", "--output=json"}, kDeadline).output,
              AllOf(HasSubstr("\"RUNNING\""), HasSubstr("\"generation\": \"1\"")))
      << "no daemon was lost";
  // A daemon that comes with a certificate of the new ones.
  cluster->StartWorker("w3");
  EXPECT_EQ(cluster->Client({"cancel", "long"}, kDeadline).exit_code, 0);
}

}  // namespace
}  // namespace sangam::testing
