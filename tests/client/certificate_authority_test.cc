#include "client/certificate_authority.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

const absl::Time kBegin = absl::FromUnixSeconds(1'700'000'000);
const absl::Time kEnd = kBegin + absl::Hours(24);

X509* Read(const std::string& pem) {
  BIO* const bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509* const certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  return certificate;
}

// What OpenSSL says to `certificate` under `authority` at `when` for `purpose`; X509_V_OK: good.
int Verify(const std::string& certificate, const std::string& authority, absl::Time when,
           int purpose) {
  X509* const subject = Read(certificate);
  X509* const issuer = Read(authority);
  X509_STORE* const store = X509_STORE_new();
  X509_STORE_add_cert(store, issuer);
  X509_STORE_CTX* const context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, subject, nullptr);
  X509_STORE_CTX_set_time(context, 0, absl::ToTimeT(when));
  X509_STORE_CTX_set_purpose(context, purpose);
  X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(context), X509_V_FLAG_X509_STRICT);
  const int error = X509_verify_cert(context) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(context);
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  X509_free(issuer);
  X509_free(subject);
  return error;
}

std::string Printed(const std::string& pem) {
  X509* const certificate = Read(pem);
  BIO* const bio = BIO_new(BIO_s_mem());
  X509_print(bio, certificate);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  X509_free(certificate);
  return text;
}

CertificateRequest Worker() {
  CertificateRequest request;
  request.trust_domain = "lab";
  request.role = "worker";
  request.name = "w1";
  request.hosts = {"worker-1.example.org", "10.0.0.7", "::1", "*.workers"};
  request.not_before = kBegin;
  request.not_after = kEnd;
  return request;
}

TEST(CertificateAuthorityTest, SignsWhatItsOwnCertificateVerifies) {
  const KeyPair authority = *MakeAuthority("lab", kBegin, kEnd);
  const KeyPair pair = *IssueCertificate(authority, Worker());
  const absl::Time noon = kBegin + absl::Hours(12);
  EXPECT_EQ(Verify(pair.certificate, authority.certificate, noon, X509_PURPOSE_SSL_SERVER),
            X509_V_OK);
  EXPECT_EQ(Verify(pair.certificate, authority.certificate, noon, X509_PURPOSE_SSL_CLIENT),
            X509_V_OK);
  EXPECT_EQ(Verify(pair.certificate, authority.certificate, kEnd + absl::Seconds(2),
                   X509_PURPOSE_SSL_CLIENT),
            X509_V_ERR_CERT_HAS_EXPIRED);
  const KeyPair other = *MakeAuthority("lab", kBegin, kEnd);
  EXPECT_NE(Verify(pair.certificate, other.certificate, noon, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
}

TEST(CertificateAuthorityTest, SaysRoleNameAndHosts) {
  const KeyPair authority = *MakeAuthority("lab", kBegin, kEnd);
  const std::string text = Printed(IssueCertificate(authority, Worker())->certificate);
  EXPECT_THAT(text, HasSubstr("URI:spiffe://lab/role/worker/w1, DNS:worker-1.example.org, "
                              "IP Address:10.0.0.7, IP Address:0:0:0:0:0:0:0:1, DNS:*.workers"));
  EXPECT_THAT(text, HasSubstr("CA:FALSE"));
  EXPECT_THAT(text, HasSubstr("ASN1 OID: prime256v1"));
  EXPECT_EQ(*TrustDomainOf(authority.certificate), "lab");
}

TEST(CertificateAuthorityTest, PeopleDoNotServe) {
  const KeyPair authority = *MakeAuthority("lab", kBegin, kEnd);
  CertificateRequest request = Worker();
  for (const std::string role : {"client", "viewer", "admin"}) {
    request.role = role;
    const KeyPair pair = *IssueCertificate(authority, request);
    EXPECT_EQ(Verify(pair.certificate, authority.certificate, kBegin + absl::Hours(1),
                     X509_PURPOSE_SSL_CLIENT),
              X509_V_OK);
    EXPECT_EQ(Verify(pair.certificate, authority.certificate, kBegin + absl::Hours(1),
                     X509_PURPOSE_SSL_SERVER),
              X509_V_ERR_INVALID_PURPOSE);
  }
}

// A leaf must not be able to sign.
TEST(CertificateAuthorityTest, NoCertificateOfARoleSigns) {
  const KeyPair authority = *MakeAuthority("lab", kBegin, kEnd);
  const KeyPair leaf = *IssueCertificate(authority, Worker());
  const absl::StatusOr<KeyPair> forged = IssueCertificate(leaf, Worker());
  if (!forged.ok()) return;
  EXPECT_NE(Verify(forged->certificate, authority.certificate, kBegin + absl::Hours(1),
                   X509_PURPOSE_SSL_CLIENT),
            X509_V_OK);
}

TEST(CertificateAuthorityTest, RefusesWhatIsMalformed) {
  const KeyPair authority = *MakeAuthority("lab", kBegin, kEnd);
  EXPECT_TRUE(absl::IsInvalidArgument(MakeAuthority("", kBegin, kEnd).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(MakeAuthority("lab", kEnd, kBegin).status()));
  CertificateRequest request = Worker();
  request.role = "root";
  EXPECT_THAT(std::string(IssueCertificate(authority, request).status().message()),
              HasSubstr("found \"root\", expected coordinator, server"));
  request = Worker();
  request.name = "../w1";
  EXPECT_TRUE(absl::IsInvalidArgument(IssueCertificate(authority, request).status()));
  // Would be a second name in OpenSSL's configuration language.
  request = Worker();
  request.hosts = {"a,URI:spiffe://lab/role/admin"};
  EXPECT_TRUE(absl::IsInvalidArgument(IssueCertificate(authority, request).status()));
  const KeyPair other = *MakeAuthority("lab", kBegin, kEnd);
  EXPECT_THAT(
      std::string(
          IssueCertificate({authority.certificate, other.key}, Worker()).status().message()),
      HasSubstr("do not belong together"));
  EXPECT_FALSE(IssueCertificate({"x", authority.key}, Worker()).ok());
  EXPECT_FALSE(IssueCertificate({authority.certificate, ""}, Worker()).ok());
}

}  // namespace
}  // namespace sangam
