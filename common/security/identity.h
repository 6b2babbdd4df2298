#ifndef SANGAM_COMMON_SECURITY_IDENTITY_H_
#define SANGAM_COMMON_SECURITY_IDENTITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sangam {

// What a process or a person may be. A daemon that is coordinator and server in one has the role
// coordinator.
enum class Role { kClient, kViewer, kWorker, kServer, kCoordinator, kAdmin };

// "client", "viewer", ...
absl::string_view RoleName(Role role);
// Errors: InvalidArgument  another word
absl::StatusOr<Role> ParseRole(absl::string_view name);

// Several roles, for rights.
class RoleSet {
 public:
  constexpr RoleSet() = default;
  template <typename... Roles>
  constexpr explicit RoleSet(Role first, Roles... others)
      : bits_((Bit(first) | ... | Bit(others))) {}

  constexpr bool Has(Role role) const { return (bits_ & Bit(role)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  // "client or admin".
  std::string ToString() const;

 private:
  static constexpr uint32_t Bit(Role role) { return 1u << static_cast<uint32_t>(role); }

  uint32_t bits_ = 0;
};

// Who a certificate or a token stands for.
struct Identity {
  Role role = Role::kViewer;
  // Of the one daemon or person; empty: anyone of the role.
  std::string name;

  // "worker/w0", or "worker" without a name.
  std::string ToString() const;
};

// Names: 1 to 128 of letters, digits and "._@-".
bool IsIdentityName(absl::string_view name);

// Reads the identity from the URIs in the subject alternative names of a certificate, of which
// exactly one must be "spiffe://<trust_domain>/role/<role>[/<name>]". Nothing else in a certificate
// counts, its common name least of all.
// Errors: InvalidArgument  another number of URIs, another form, trust domain or role
absl::StatusOr<Identity> IdentityFromUris(const std::vector<std::string>& uris,
                                          absl::string_view trust_domain);

}  // namespace sangam

#endif  // SANGAM_COMMON_SECURITY_IDENTITY_H_
