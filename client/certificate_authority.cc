#include "client/certificate_authority.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/security/openssl_ptr.h"

namespace sangam {
namespace {

using openssl::Certificate;
using openssl::Extension;
using openssl::Key;
using openssl::Names;
using openssl::Number;
using Memory = openssl::Bio;

constexpr size_t kLongestLabel = 63;
constexpr char kScheme[] = "spiffe://";

absl::Status OpenSslError(absl::string_view what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, ": ", text.data()));
}

bool IsLabel(absl::string_view text) {
  return !text.empty() && text.size() <= kLongestLabel &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_islower(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '.';
         });
}

absl::Status CheckLabel(absl::string_view field, absl::string_view text) {
  if (IsLabel(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": found \"", text, "\", expected 1 to ",
                                                 kLongestLabel,
                                                 " lower-case letters, digits, '-' and '.'"));
}

absl::Status CheckTimes(absl::Time not_before, absl::Time not_after) {
  if (not_before < not_after) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "lifetime: found ", absl::FormatDuration(not_after - not_before), ", expected more than 0"));
}

bool IsIpAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

// The names go into OpenSSL's little configuration language, so they must not hold its signs.
absl::Status CheckHost(const std::string& host) {
  if (IsIpAddress(host)) return absl::OkStatus();
  const absl::string_view name = absl::string_view(host).substr(host.rfind("*.", 0) == 0 ? 2 : 0);
  const bool fine =
      !name.empty() && name.size() <= 253 && std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ||
               c == '_';
      });
  if (fine) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("host: found \"", host, "\", expected a DNS name or an address"));
}

absl::Status AddExtension(X509* subject, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, subject, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  if (extension == nullptr || X509_add_ext(subject, extension.get(), -1) != 1) {
    return OpenSslError(absl::StrCat("certificate extension ", value));
  }
  return absl::OkStatus();
}

// 128 random bits, positive: two certificates never share one.
absl::Status SetSerial(X509* certificate) {
  const Number number(BN_new());
  if (number == nullptr || BN_rand(number.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) != 1 ||
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr) {
    return OpenSslError("serial number");
  }
  return absl::OkStatus();
}

absl::Status SetName(const std::string& name, X509_NAME* where) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(name.c_str());
  if (X509_NAME_add_entry_by_txt(where, "CN", MBSTRING_UTF8, bytes, -1, -1, 0) != 1) {
    return OpenSslError("certificate name");
  }
  return absl::OkStatus();
}

absl::StatusOr<Certificate> NewCertificate(const std::string& name, absl::Time not_before,
                                           absl::Time not_after, EVP_PKEY* key) {
  Certificate certificate(X509_new());
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      X509_set_pubkey(certificate.get(), key) != 1 ||
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(not_before)) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(not_after)) == nullptr) {
    return OpenSslError("certificate");
  }
  RETURN_IF_ERROR(SetSerial(certificate.get()));
  RETURN_IF_ERROR(SetName(name, X509_get_subject_name(certificate.get())));
  return certificate;
}

absl::StatusOr<Key> NewKey() {
  Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("private key");
  return key;
}

std::string TextOf(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::StatusOr<KeyPair> SignedPair(X509* certificate, EVP_PKEY* key, EVP_PKEY* signer) {
  if (X509_sign(certificate, signer, EVP_sha256()) == 0) return OpenSslError("signature");
  const Memory certificate_text(BIO_new(BIO_s_mem()));
  const Memory key_text(BIO_new(BIO_s_mem()));
  if (certificate_text == nullptr || key_text == nullptr ||
      PEM_write_bio_X509(certificate_text.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) !=
          1) {
    return OpenSslError("PEM");
  }
  return KeyPair{TextOf(certificate_text.get()), TextOf(key_text.get())};
}

Memory Reader(const std::string& text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<Certificate> ReadAuthority(const std::string& text) {
  Certificate certificate(PEM_read_bio_X509(Reader(text).get(), nullptr, nullptr, nullptr));
  if (certificate != nullptr) return certificate;
  ERR_clear_error();
  return absl::InvalidArgumentError("the authority's certificate: expected PEM text");
}

bool MayServe(const std::string& role) {
  return role == "coordinator" || role == "server" || role == "worker";
}

absl::Status CheckRequest(const CertificateRequest& request) {
  RETURN_IF_ERROR(CheckLabel("trust domain", request.trust_domain));
  const std::vector<std::string>& roles = CertificateRoles();
  if (std::find(roles.begin(), roles.end(), request.role) == roles.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("role: found \"", request.role, "\", expected ", absl::StrJoin(roles, ", ")));
  }
  if (!request.name.empty()) RETURN_IF_ERROR(CheckLabel("name", request.name));
  for (const std::string& host : request.hosts) RETURN_IF_ERROR(CheckHost(host));
  return CheckTimes(request.not_before, request.not_after);
}

std::string AlternativeNames(const CertificateRequest& request) {
  std::string names = absl::StrCat("URI:", RoleUri(request));
  for (const std::string& host : request.hosts) {
    absl::StrAppend(&names, IsIpAddress(host) ? ",IP:" : ",DNS:", host);
  }
  return names;
}

}  // namespace

const std::vector<std::string>& CertificateRoles() {
  static const auto* const roles =
      new std::vector<std::string>{"coordinator", "server", "worker", "client", "viewer", "admin"};
  return *roles;
}

std::string RoleUri(const CertificateRequest& request) {
  return absl::StrCat(kScheme, request.trust_domain, "/role/", request.role,
                      request.name.empty() ? "" : "/", request.name);
}

absl::StatusOr<KeyPair> MakeAuthority(const std::string& trust_domain, absl::Time not_before,
                                      absl::Time not_after) {
  RETURN_IF_ERROR(CheckLabel("trust domain", trust_domain));
  RETURN_IF_ERROR(CheckTimes(not_before, not_after));
  ASSIGN_OR_RETURN(const Key key, NewKey());
  const std::string name = absl::StrCat(trust_domain, " authority");
  ASSIGN_OR_RETURN(const Certificate certificate,
                   NewCertificate(name, not_before, not_after, key.get()));
  X509* const authority = certificate.get();
  RETURN_IF_ERROR(SetName(name, X509_get_issuer_name(authority)));
  RETURN_IF_ERROR(
      AddExtension(authority, authority, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  RETURN_IF_ERROR(
      AddExtension(authority, authority, NID_key_usage, "critical,keyCertSign,cRLSign"));
  RETURN_IF_ERROR(AddExtension(authority, authority, NID_subject_key_identifier, "hash"));
  RETURN_IF_ERROR(AddExtension(authority, authority, NID_subject_alt_name,
                               absl::StrCat("URI:", kScheme, trust_domain)));
  return SignedPair(authority, key.get(), key.get());
}

absl::StatusOr<std::string> TrustDomainOf(const std::string& authority_certificate) {
  ASSIGN_OR_RETURN(const Certificate certificate, ReadAuthority(authority_certificate));
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const absl::string_view uri(
        reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.uniformResourceIdentifier)),
        static_cast<size_t>(ASN1_STRING_length(name->d.uniformResourceIdentifier)));
    if (absl::StartsWith(uri, kScheme)) return std::string(uri.substr(sizeof(kScheme) - 1));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the authority's certificate: found no name that begins with ", kScheme));
}

absl::StatusOr<KeyPair> IssueCertificate(const KeyPair& authority,
                                         const CertificateRequest& request) {
  RETURN_IF_ERROR(CheckRequest(request));
  ASSIGN_OR_RETURN(const Certificate issuer, ReadAuthority(authority.certificate));
  const Key signer(PEM_read_bio_PrivateKey(Reader(authority.key).get(), nullptr, nullptr, nullptr));
  if (signer == nullptr) {
    ERR_clear_error();
    return absl::InvalidArgumentError("the authority's key: expected PEM text without a password");
  }
  if (X509_check_private_key(issuer.get(), signer.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        "the authority's certificate and key: found two that do not belong together");
  }
  ASSIGN_OR_RETURN(const Key key, NewKey());
  ASSIGN_OR_RETURN(
      const Certificate certificate,
      NewCertificate(
          request.name.empty() ? request.role : absl::StrCat(request.role, " ", request.name),
          request.not_before, request.not_after, key.get()));
  X509* const subject = certificate.get();
  if (X509_set_issuer_name(subject, X509_get_subject_name(issuer.get())) != 1) {
    return OpenSslError("issuer");
  }
  RETURN_IF_ERROR(AddExtension(subject, issuer.get(), NID_basic_constraints, "critical,CA:FALSE"));
  RETURN_IF_ERROR(AddExtension(subject, issuer.get(), NID_key_usage, "critical,digitalSignature"));
  RETURN_IF_ERROR(AddExtension(subject, issuer.get(), NID_ext_key_usage,
                               MayServe(request.role) ? "serverAuth,clientAuth" : "clientAuth"));
  RETURN_IF_ERROR(AddExtension(subject, issuer.get(), NID_subject_key_identifier, "hash"));
  RETURN_IF_ERROR(AddExtension(subject, issuer.get(), NID_authority_key_identifier, "keyid"));
  RETURN_IF_ERROR(
      AddExtension(subject, issuer.get(), NID_subject_alt_name, AlternativeNames(request)));
  return SignedPair(subject, key.get(), signer.get());
}

}  // namespace sangam
