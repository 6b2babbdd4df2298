#include "client/doctor/tls_checks.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/human_format.h"
#include "common/security/security_flags.h"
#include "common/security/tls_files.h"
#include "common/security/token_table.h"

namespace sangam {
namespace {

constexpr absl::Duration kEndsSoon = absl::Hours(24 * 7);

Finding CheckToken(const std::string& path) {
  Finding finding{absl::StrCat("token ", path), Verdict::kFault, "", ""};
  const absl::StatusOr<std::string> text = ReadSmallFile(path, /*secret=*/true);
  absl::Status status = text.status();
  if (status.ok()) status = ParseToken(*text).status();
  if (!status.ok()) {
    finding.found = OneLine(status.message());
    finding.fix = "sangam tokens makes one; chmod 600 its file";
    return finding;
  }
  finding.verdict = Verdict::kGood;
  finding.found = "is well formed";
  return finding;
}

}  // namespace

Findings CheckCredentials(const SecurityFlags& flags, absl::Time now) {
  if (flags.tls.empty() && flags.token_file.empty()) {
    return {{"credentials", Verdict::kSkipped, "none are given", ""}};
  }
  Findings findings;
  Finding files{"certificate", Verdict::kFault, "", ""};
  const absl::StatusOr<TlsMaterial> material = LoadTlsFiles(flags.tls, flags.trust_domain, now);
  if (!material.ok()) {
    files.found = OneLine(material.status().message());
    files.fix =
        absl::IsFailedPrecondition(material.status())
            ? "chmod 600 the key and let the user of the process own it"
            : "sangam certs makes certificates; --tls_cert, --tls_key and --tls_ca must belong "
              "together";
  } else if (!material->identity.has_value()) {
    files.verdict = Verdict::kGood;
    files.found = "the authority can be read; there is no certificate of our own";
  } else {
    files.verdict = Verdict::kGood;
    files.found = absl::StrCat("is of ", material->identity->ToString(), " and good for ",
                               HumanDuration(material->not_after - now));
    if (material->not_after - now < kEndsSoon) {
      files.verdict = Verdict::kWarning;
      files.fix = "renew it: a running process takes the new files by itself";
    }
  }
  findings.push_back(files);
  if (!flags.token_file.empty()) findings.push_back(CheckToken(flags.token_file));
  return findings;
}

}  // namespace sangam
