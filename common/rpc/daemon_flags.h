#ifndef SANGAM_COMMON_RPC_DAEMON_FLAGS_H_
#define SANGAM_COMMON_RPC_DAEMON_FLAGS_H_

#include <string>

#include "absl/time/time.h"
#include "common/flags/flags.h"

namespace sangam {

// Flags that every daemon has, whatever it does.
struct DaemonFlags {
  std::string config;      // path; empty: no file
  std::string ready_file;  // path; empty: none
  std::string log_level = "info";
  absl::Duration start_deadline = absl::Seconds(30);
  absl::Duration drain_timeout = absl::Seconds(60);
  bool core_dumps = false;
  bool print_config = false;
  bool version = false;
  bool print_man = false;

  // `ready_line`: what the ready file gets. This must outlive the set.
  void AddFlags(const std::string& ready_line, FlagSet* flags);
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_DAEMON_FLAGS_H_
