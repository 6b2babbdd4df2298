#ifndef SANGAM_COMMON_ADMIN_ADMIN_FLAGS_H_
#define SANGAM_COMMON_ADMIN_ADMIN_FLAGS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/flags/flags.h"

namespace sangam {

// What a daemon's flags say about looking at it.
struct AdminFlags {
  std::string admin_listen;         // "host:port"; empty: no admin server
  std::string log_format = "text";  // text, json

  // The targets are this object, which must outlive the set.
  void AddFlags(FlagSet* flags);

  // Makes the log as the flags say. `component`: the program's name. May be called again.
  // Errors: InvalidArgument  an unknown format
  absl::Status SetUpLog(absl::string_view component) const;
};

// Name and value of every flag, for DaemonAdmin::Facts. No flag holds a secret: those lie in files.
std::vector<std::pair<std::string, std::string>> FlagsInEffect(const FlagSet& flags);

}  // namespace sangam

#endif  // SANGAM_COMMON_ADMIN_ADMIN_FLAGS_H_
