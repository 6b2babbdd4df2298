#include "common/security/caller.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/security/identity.h"

namespace sangam {
namespace {

constexpr int kShownBytes = 200;

}  // namespace

bool Caller::sees_all() const {
  return !known_ || identity_.role == Role::kAdmin || identity_.role == Role::kViewer;
}

bool Caller::MayRead(absl::string_view owner) const {
  if (sees_all()) return true;
  return identity_.role == Role::kClient && identity_.name == owner;
}

bool Caller::MayChange(absl::string_view owner) const {
  if (!known_ || identity_.role == Role::kAdmin) return true;
  return identity_.role == Role::kClient && identity_.name == owner;
}

absl::Status Caller::CheckDaemon(Role role, absl::string_view name) const {
  if (!known_) return absl::OkStatus();
  // A coordinator can be a server too.
  const bool same_role =
      identity_.role == role || (identity_.role == Role::kCoordinator && role == Role::kServer);
  if (!same_role) {
    return absl::PermissionDeniedError(
        absl::StrCat("role ", RoleName(identity_.role), " may not act as a ", RoleName(role)));
  }
  if (!identity_.name.empty() && identity_.name != name) {
    return absl::PermissionDeniedError(
        absl::StrCat("found the name \"", absl::CHexEscape(name.substr(0, kShownBytes)),
                     "\", expected \"", identity_.name, "\", for which the certificate is"));
  }
  return absl::OkStatus();
}

std::string Caller::ToString() const { return known_ ? identity_.ToString() : "anyone"; }

}  // namespace sangam
