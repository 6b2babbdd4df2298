#ifndef SANGAM_SERVER_CORE_DAEMON_KEY_H_
#define SANGAM_SERVER_CORE_DAEMON_KEY_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/cluster_service.pb.h"

namespace sangam {

// A daemon's place in the cluster, whichever process fills it.
struct DaemonKey {
  v1::DaemonRole role = v1::DAEMON_ROLE_UNSPECIFIED;
  std::string name;

  friend bool operator<(const DaemonKey& a, const DaemonKey& b) {
    return a.role != b.role ? a.role < b.role : a.name < b.name;
  }
  friend bool operator==(const DaemonKey& a, const DaemonKey& b) {
    return a.role == b.role && a.name == b.name;
  }
};

inline DaemonKey KeyOf(const v1::DaemonIdentity& daemon) { return {daemon.role(), daemon.name()}; }

// "worker" or "server".
inline const char* RoleName(v1::DaemonRole role) {
  return role == v1::WORKER ? "worker" : role == v1::SERVER ? "server" : "daemon";
}

// "worker w-1".
inline std::string ToString(const DaemonKey& key) {
  return absl::StrCat(RoleName(key.role), " ", key.name);
}

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_DAEMON_KEY_H_
