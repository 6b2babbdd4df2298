#include "common/security/tls_files.h"

#include <fcntl.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/security/identity.h"
#include "common/security/openssl_ptr.h"

namespace sangam {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
// More than any chain or bundle needs.
constexpr size_t kMaxCertificates = 1000;

using openssl::Bio;
using openssl::Certificate;
using openssl::Key;
using openssl::Names;
using openssl::Store;
using openssl::StoreContext;

struct FreeStack {
  // What it holds belongs to others.
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
};

absl::Status Wrong(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("\"", path, "\": ", what));
}

Bio Memory(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<std::vector<Certificate>> ReadCertificates(const std::string& path,
                                                          const std::string& pem) {
  std::vector<Certificate> certificates;
  const Bio bio = Memory(pem);
  while (certificates.size() < kMaxCertificates) {
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  const unsigned long error = ERR_peek_last_error();  // NOLINT(google-runtime-int): OpenSSL's type
  ERR_clear_error();
  const bool at_end =
      ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (certificates.empty() || !at_end) {
    return Wrong(path, "found no valid PEM certificates, expected them alone");
  }
  return certificates;
}

// OpenSSL would ask on the terminal.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return -1; }

absl::StatusOr<Key> ReadKey(const std::string& path, const std::string& pem) {
  const Bio bio = Memory(pem);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) return Wrong(path, "found no private key in PEM without a passphrase");
  return key;
}

std::vector<std::string> UrisOf(X509* certificate) {
  std::vector<std::string> uris;
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_STRING* uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string SerialOf(X509* certificate) {
  const openssl::Number number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  if (number == nullptr) return "";
  char* hex = BN_bn2hex(number.get());
  std::string serial = hex == nullptr ? "" : hex;
  OPENSSL_free(hex);
  return serial;
}

absl::Status CheckChain(const std::vector<Certificate>& chain,
                        const std::vector<Certificate>& authority, const TlsFiles& files,
                        absl::Time now) {
  const Store store(X509_STORE_new());
  for (const Certificate& root : authority) X509_STORE_add_cert(store.get(), root.get());
  const std::unique_ptr<STACK_OF(X509), FreeStack> others(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(others.get(), chain[i].get());
  const StoreContext context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), others.get()) != 1) {
    return absl::InternalError("OpenSSL cannot verify certificates");
  }
  X509_STORE_CTX_set_time(context.get(), 0, absl::ToTimeT(now));
  // As gRPC verifies: whatever is in the authority's file is trusted, intermediates too.
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_PARTIAL_CHAIN);
  const bool verified = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (verified) return absl::OkStatus();
  const int error = X509_STORE_CTX_get_error(context.get());
  return Wrong(files.certificate,
               absl::StrCat("the certificate does not lead to \"", files.authority,
                            "\": ", X509_verify_cert_error_string(error)));
}

absl::Status CheckOwn(const TlsFiles& files, absl::string_view trust_domain, absl::Time now,
                      const std::vector<Certificate>& authority, TlsMaterial* material) {
  ASSIGN_OR_RETURN(material->certificate, ReadSmallFile(files.certificate, false));
  ASSIGN_OR_RETURN(material->key, ReadSmallFile(files.key, true));
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain,
                   ReadCertificates(files.certificate, material->certificate));
  ASSIGN_OR_RETURN(const Key key, ReadKey(files.key, material->key));
  X509* const leaf = chain.front().get();
  const bool fits = X509_check_private_key(leaf, key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return Wrong(files.key, absl::StrCat("the key does not belong to the certificate in \"",
                                         files.certificate, "\""));
  }
  const absl::Time not_before = ToTime(X509_get0_notBefore(leaf));
  material->not_after = ToTime(X509_get0_notAfter(leaf));
  if (now < not_before || now > material->not_after) {
    return Wrong(
        files.certificate,
        absl::StrCat("the certificate ", now < not_before ? "is not valid yet" : "has expired",
                     ": valid from ", absl::FormatTime(not_before, absl::UTCTimeZone()), " to ",
                     absl::FormatTime(material->not_after, absl::UTCTimeZone()), ", now ",
                     absl::FormatTime(now, absl::UTCTimeZone())));
  }
  const absl::StatusOr<Identity> identity = IdentityFromUris(UrisOf(leaf), trust_domain);
  if (!identity.ok()) return Wrong(files.certificate, identity.status().message());
  material->identity = *identity;
  material->serial = SerialOf(leaf);
  return CheckChain(chain, authority, files, now);
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, bool secret) {
  // Without O_NONBLOCK the opening of a FIFO waits for its other end.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("\"", path, "\""));
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  } const closer = {fd};
  struct stat found = {};
  if (fstat(fd, &found) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("\"", path, "\""));
  if (!S_ISREG(found.st_mode)) return Wrong(path, "is not a regular file");
  if (secret && (found.st_mode & (S_IROTH | S_IWOTH | S_IXOTH | S_IWGRP)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("\"%s\": others can read or change it (mode %04o); chmod 600 it", path,
                        found.st_mode & 07777));
  }
  std::string text;
  for (;;) {
    char block[4096];
    const ssize_t count = read(fd, block, sizeof(block));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, absl::StrCat("\"", path, "\""));
    if (count == 0) return text;
    text.append(block, static_cast<size_t>(count));
    if (text.size() > kMaxFileBytes) {
      return Wrong(path, absl::StrCat("is larger than ", kMaxFileBytes, " bytes"));
    }
  }
}

absl::StatusOr<TlsMaterial> LoadTlsFiles(const TlsFiles& files, absl::string_view trust_domain,
                                         absl::Time now) {
  TlsMaterial material;
  ASSIGN_OR_RETURN(material.authority, ReadSmallFile(files.authority, false));
  ASSIGN_OR_RETURN(const std::vector<Certificate> authority,
                   ReadCertificates(files.authority, material.authority));
  material.num_authorities = authority.size();
  if (!files.certificate.empty()) {
    RETURN_IF_ERROR(CheckOwn(files, trust_domain, now, authority, &material));
  }
  return material;
}

}  // namespace sangam
