#ifndef SANGAM_COMMON_SECURITY_CALLER_H_
#define SANGAM_COMMON_SECURITY_CALLER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/security/identity.h"

namespace sangam {

// Who makes a call, and what is the caller's. Without credentials (plaintext) the caller is whoever
// reaches the port, and may do everything.
class Caller {
 public:
  // Without credentials.
  Caller() = default;
  explicit Caller(Identity identity) : known_(true), identity_(std::move(identity)) {}

  bool known() const { return known_; }
  // REQUIRES: known().
  const Identity& identity() const { return identity_; }

  // Owner of the jobs that the caller submits; empty when the caller has no name.
  std::string owner() const { return known_ ? identity_.name : ""; }

  // Whether the caller sees the jobs of all owners.
  bool sees_all() const;

  // Clients see and change their own jobs, viewers see all, admins do everything.
  bool MayRead(absl::string_view owner) const;
  bool MayChange(absl::string_view owner) const;

  // A daemon whose certificate has a name acts under this name only. `role`: as what it acts.
  // Errors: PermissionDenied  another role, or another name
  absl::Status CheckDaemon(Role role, absl::string_view name) const;

  // "client/alice", or "anyone" without credentials. For logs.
  std::string ToString() const;

 private:
  bool known_ = false;
  Identity identity_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_SECURITY_CALLER_H_
