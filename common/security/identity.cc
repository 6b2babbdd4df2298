#include "common/security/identity.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace sangam {
namespace {

constexpr Role kRoles[] = {Role::kClient, Role::kViewer,      Role::kWorker,
                           Role::kServer, Role::kCoordinator, Role::kAdmin};
constexpr size_t kMaxNameBytes = 128;
constexpr size_t kShownBytes = 200;

std::string Shown(absl::string_view uri) {
  return absl::StrCat("\"", absl::CHexEscape(uri.substr(0, kShownBytes)), "\"");
}

}  // namespace

absl::string_view RoleName(Role role) {
  switch (role) {
    case Role::kClient:
      return "client";
    case Role::kViewer:
      return "viewer";
    case Role::kWorker:
      return "worker";
    case Role::kServer:
      return "server";
    case Role::kCoordinator:
      return "coordinator";
    case Role::kAdmin:
      return "admin";
  }
  return "unknown";
}

absl::StatusOr<Role> ParseRole(absl::string_view name) {
  for (const Role role : kRoles) {
    if (name == RoleName(role)) return role;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("role: found ", Shown(name),
                   ", expected client, viewer, worker, server, coordinator or admin"));
}

std::string RoleSet::ToString() const {
  std::vector<absl::string_view> names;
  for (const Role role : kRoles) {
    if (Has(role)) names.push_back(RoleName(role));
  }
  return names.empty() ? "nobody" : absl::StrJoin(names, " or ");
}

std::string Identity::ToString() const {
  return name.empty() ? std::string(RoleName(role)) : absl::StrCat(RoleName(role), "/", name);
}

bool IsIdentityName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '@' || c == '-';
         });
}

absl::StatusOr<Identity> IdentityFromUris(const std::vector<std::string>& uris,
                                          absl::string_view trust_domain) {
  if (uris.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate has ", uris.size(),
                     " URIs among its alternative names, expected one: spiffe://", trust_domain,
                     "/role/ROLE[/NAME]"));
  }
  const std::string& uri = uris.front();
  const auto wrong = [&] {
    return absl::InvalidArgumentError(absl::StrCat("the certificate is for ", Shown(uri),
                                                   ", expected spiffe://", trust_domain,
                                                   "/role/ROLE[/NAME]"));
  };
  absl::string_view rest = uri;
  if (!absl::ConsumePrefix(&rest, absl::StrCat("spiffe://", trust_domain, "/role/"))) {
    return wrong();
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, '/');
  if (parts.size() > 2) return wrong();
  const absl::StatusOr<Role> role = ParseRole(parts[0]);
  if (!role.ok()) return wrong();
  if (parts.size() == 2 && !IsIdentityName(parts[1])) return wrong();
  return Identity{*role, parts.size() == 2 ? std::string(parts[1]) : ""};
}

}  // namespace sangam
