#include "client/commands/certs.h"

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/certificate_authority.h"
#include "client/commands/command.h"
#include "client/files.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

constexpr size_t kLargestPem = 64 * 1024;
// A certificate is good on machines whose clocks are a little behind this one.
constexpr absl::Duration kClockSkew = absl::Minutes(5);

class CertsCommand : public Command {
 public:
  CommandText text() const override {
    return {"certs",
            "init|new [ROLE] [NAME]",
            "Make certificates for a cluster with TLS.",
            "`init` makes an authority (ca.crt, ca.key) and one certificate for each role:\n"
            "coordinator, server, worker, client, viewer, admin. `new` makes one more that\n"
            "the same authority signs, bound to NAME when there is one: a worker with such a\n"
            "certificate may only register under this name. Keys are readable by their\n"
            "owner alone; nothing that exists is overwritten. Keep ca.key away from the\n"
            "cluster's machines: who has it may be anybody.\n"
            "A daemon takes --tls_cert=ROLE.crt --tls_key=ROLE.key --tls_ca=ca.crt.\n",
            {"sangam certs init --out=certs", "sangam certs new worker w1 --out=certs",
             "sangam certs new server --host=ps-0.example.org --days=30 --out=certs"}};
  }

  void AddFlags(const Environment& /*environment*/, FlagSet* flags) override {
    flags->AddString({"out", "DIR", "the folder of the authority and its certificates"}, &folder_);
    flags->AddString({"trust_domain", "NAME", "init: what the identities begin with"},
                     &trust_domain_);
    flags->AddCount({"days", "N", "how long certificates are good"}, &days_, 1, 3650);
    flags->AddRepeated(
        {"host", "NAME", "new: a DNS name or address of the daemon; may be repeated"}, &hosts_);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    const std::string& verb = arguments[0];
    if (verb == "init") {
      if (arguments.size() > 1) {
        return UsageError(absl::StrCat("init: unexpected argument '", arguments[1], "'"));
      }
      return Init(environment);
    }
    if (verb == "new") {
      if (arguments.size() < 2) return UsageError("new: ROLE is missing");
      return New(arguments[1], arguments.size() > 2 ? arguments[2] : "", environment);
    }
    return UsageError(absl::StrCat("found '", verb, "', expected init or new"));
  }

 private:
  std::string PathOf(const std::string& file) const { return absl::StrCat(folder_, "/", file); }

  absl::Status CheckAbsent(const std::string& name) const {
    for (const char* const ending : {".crt", ".key"}) {
      const std::string path = PathOf(absl::StrCat(name, ending));
      struct stat facts = {};
      if (lstat(path.c_str(), &facts) == 0) {
        return absl::FailedPreconditionError(absl::StrCat(
            path, ": exists; nothing is overwritten, choose another --out or remove it"));
      }
    }
    return absl::OkStatus();
  }

  // A folder without an authority is no job that is not there.
  absl::StatusOr<std::string> OfAuthority(const std::string& file) const {
    absl::StatusOr<std::string> text = ReadFile(PathOf(file), kLargestPem);
    if (!absl::IsNotFound(text.status())) return text;
    return UsageError(absl::StrCat(text.status().message(), "; 'sangam certs init --out=", folder_,
                                   "' makes an authority"));
  }

  absl::Status Write(const std::string& name, const KeyPair& pair) const {
    RETURN_IF_ERROR(WritePrivateFile(PathOf(absl::StrCat(name, ".key")), pair.key));
    return WriteFileAtomically(PathOf(absl::StrCat(name, ".crt")), pair.certificate);
  }

  CertificateRequest RequestFor(const std::string& role, const std::string& name,
                                const std::string& trust_domain, absl::Time now) const {
    CertificateRequest request;
    request.trust_domain = trust_domain;
    request.role = role;
    request.name = name;
    request.hosts = hosts_;
    request.not_before = now - kClockSkew;
    request.not_after = now + absl::Hours(24) * days_;
    return request;
  }

  absl::StatusOr<ExitCode> Init(const Environment& environment) {
    const absl::Time now = environment.clock->Wall();
    RETURN_IF_ERROR(MakeDirectories(folder_));
    RETURN_IF_ERROR(CheckAbsent("ca"));
    for (const std::string& role : CertificateRoles()) RETURN_IF_ERROR(CheckAbsent(role));
    // Longer than what it signs, so that certificates can be renewed under it.
    ASSIGN_OR_RETURN(const KeyPair authority,
                     MakeAuthority(trust_domain_, now - kClockSkew,
                                   now + absl::Hours(24) * (days_ + kAuthorityExtraDays)));
    if (hosts_.empty()) hosts_ = {"localhost", "127.0.0.1"};
    std::string made = absl::StrCat(PathOf("ca.crt"), "\n");
    std::vector<KeyPair> pairs;
    for (const std::string& role : CertificateRoles()) {
      ASSIGN_OR_RETURN(pairs.emplace_back(),
                       IssueCertificate(authority, RequestFor(role, "", trust_domain_, now)));
    }
    RETURN_IF_ERROR(Write("ca", authority));
    for (size_t i = 0; i < pairs.size(); ++i) {
      const std::string& role = CertificateRoles()[i];
      RETURN_IF_ERROR(Write(role, pairs[i]));
      absl::StrAppend(&made, PathOf(absl::StrCat(role, ".crt")), "  ",
                      RoleUri(RequestFor(role, "", trust_domain_, now)), "\n");
    }
    environment.console->Out(made);
    return ExitCode::kSuccess;
  }

  absl::StatusOr<ExitCode> New(const std::string& role, const std::string& name,
                               const Environment& environment) {
    KeyPair authority;
    ASSIGN_OR_RETURN(authority.certificate, OfAuthority("ca.crt"));
    ASSIGN_OR_RETURN(authority.key, OfAuthority("ca.key"));
    ASSIGN_OR_RETURN(const std::string trust_domain, TrustDomainOf(authority.certificate), "%s",
                     PathOf("ca.crt"));
    const CertificateRequest request =
        RequestFor(role, name, trust_domain, environment.clock->Wall());
    ASSIGN_OR_RETURN(const KeyPair pair, IssueCertificate(authority, request));
    const std::string file = name.empty() ? role : absl::StrCat(role, "-", name);
    RETURN_IF_ERROR(CheckAbsent(file));
    RETURN_IF_ERROR(Write(file, pair));
    environment.console->Out(
        absl::StrCat(PathOf(absl::StrCat(file, ".crt")), "  ", RoleUri(request), "\n"));
    return ExitCode::kSuccess;
  }

  static constexpr uint64_t kAuthorityExtraDays = 3650;

  std::string folder_ = "certs";
  std::string trust_domain_ = "sangam";
  uint64_t days_ = 365;
  std::vector<std::string> hosts_;
};

}  // namespace

std::unique_ptr<Command> MakeCertsCommand() { return std::make_unique<CertsCommand>(); }

}  // namespace sangam
