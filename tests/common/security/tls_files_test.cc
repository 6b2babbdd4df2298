#include "common/security/tls_files.h"

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/security/identity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/test_certificates.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Fault(const TlsFiles& files, absl::Time now = absl::Now()) {
  const auto loaded = LoadTlsFiles(files, "sangam", now);
  return loaded.ok() ? "none" : loaded.status().ToString();
}

TEST(TlsFilesTest, LoadsWhatFitsTogether) {
  TestCertificates certificates;
  const auto loaded = LoadTlsFiles(certificates.Issue("worker", "w0"), "sangam", absl::Now());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->identity->ToString(), "worker/w0");
  EXPECT_FALSE(loaded->serial.empty());
  EXPECT_GT(loaded->not_after, absl::Now() + absl::Hours(23));
  // A client with a token has the authority alone.
  const auto authority =
      LoadTlsFiles({"", "", certificates.authority_file()}, "sangam", absl::Now());
  ASSERT_TRUE(authority.ok()) << authority.status();
  EXPECT_FALSE(authority->identity.has_value());
}

TEST(TlsFilesTest, SaysWhatIsWrong) {
  TestCertificates certificates;
  TestCertificates foreign;
  const TlsFiles good = certificates.Issue("worker", "w0");
  EXPECT_EQ(Fault(good), "none");
  EXPECT_THAT(Fault({good.certificate, certificates.Issue("worker").key, good.authority}),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("does not belong")));
  EXPECT_THAT(Fault({good.certificate, good.key, foreign.authority_file()}),
              HasSubstr("does not lead to"));
  EXPECT_THAT(Fault(good, absl::Now() + absl::Hours(25)),
              AllOf(HasSubstr("has expired"), HasSubstr(good.certificate)));
  EXPECT_THAT(Fault(good, absl::Now() - absl::Hours(2)), HasSubstr("not valid yet"));
  EXPECT_THAT(Fault({good.certificate, good.key + ".none", good.authority}),
              AllOf(HasSubstr("NOT_FOUND"), HasSubstr(".none")));
  EXPECT_THAT(Fault({good.certificate, good.certificate, good.authority}),
              HasSubstr("no private key"));
  EXPECT_THAT(Fault({good.key, good.key, good.authority}), HasSubstr("no valid PEM certificates"));
  EXPECT_THAT(std::string(LoadTlsFiles(good, "other", absl::Now()).status().message()),
              HasSubstr("expected spiffe://other/role/"));
}

TEST(TlsFilesTest, RefusesKeysThatOthersCanReadOrChange) {
  TestCertificates certificates;
  const TlsFiles files = certificates.Issue("worker");
  for (const int mode : {0644, 0604, 0602, 0601, 0660, 0620}) {
    chmod(files.key.c_str(), static_cast<mode_t>(mode));
    EXPECT_THAT(Fault(files), AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("chmod 600")))
        << mode;
  }
  // Kubernetes gives secrets to a group.
  for (const int mode : {0600, 0400, 0440, 0640}) {
    chmod(files.key.c_str(), static_cast<mode_t>(mode));
    EXPECT_EQ(Fault(files), "none") << mode;
  }
}

TEST(TlsFilesTest, ReadsSmallRegularFilesAlone) {
  const std::string folder = TestCertificates().folder();
  EXPECT_EQ(ReadSmallFile(folder, false).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadSmallFile("/dev/zero", false).status().code(), absl::StatusCode::kInvalidArgument);
  const std::string fifo = folder + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(ReadSmallFile(fifo, false).status().code(), absl::StatusCode::kInvalidArgument);
  const std::string large = folder + "/large";
  WriteTestFile(large, std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(std::string(ReadSmallFile(large, false).status().message()), HasSubstr("larger"));
}

}  // namespace
}  // namespace sangam
