#ifndef SANGAM_COMMON_SECURITY_OPENSSL_PTR_H_
#define SANGAM_COMMON_SECURITY_OPENSSL_PTR_H_

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>

// OpenSSL's objects, each freed by the function that is for it.
namespace sangam::openssl {

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>>;
using Number = std::unique_ptr<BIGNUM, Freer<BN_free>>;
using Store = std::unique_ptr<X509_STORE, Freer<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>>;

}  // namespace sangam::openssl

#endif  // SANGAM_COMMON_SECURITY_OPENSSL_PTR_H_
