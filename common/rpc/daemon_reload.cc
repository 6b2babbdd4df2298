#include "common/rpc/daemon_reload.h"

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/log.h"
#include "common/flags/flags.h"

namespace sangam {

void DaemonReload::OnChange(const std::string& flag,
                            std::function<absl::Status(const std::string& value)> apply) {
  apply_[flag] = std::move(apply);
}

void DaemonReload::OnReload(const std::string& what,
                            std::function<absl::StatusOr<std::string>()> look) {
  look_.emplace_back(what, std::move(look));
}

void DaemonReload::Change(const std::string& flag, const std::string& value) {
  std::string& running = running_[flag];
  const auto apply = apply_.find(flag);
  if (apply == apply_.end()) {
    LogWarning("reload: changes at the next start", "flag=%s running=%s found=%s", flag,
               LogValue(running), LogValue(value));
    return;
  }
  const absl::Status status = apply->second(value);
  if (!status.ok()) {
    LogError("reload: not changed", "flag=%s running=%s found=%s why=%s", flag, LogValue(running),
             LogValue(value), LogValue(status.message()));
    return;
  }
  LogInfo("reload: changed", "flag=%s from=%s to=%s", flag, LogValue(running), LogValue(value));
  running = value;
}

void DaemonReload::Run() {
  const absl::StatusOr<FlagSet::Values> values = read_();
  if (values.ok()) {
    for (const auto& [flag, value] : *values) {
      if (value != running_[flag]) Change(flag, value);
    }
  } else {
    LogError("reload: no flag changed", "why=%s", LogValue(values.status().message()));
  }
  for (const auto& [what, look] : look_) {
    const absl::StatusOr<std::string> found = look();
    if (!found.ok()) {
      LogError("reload: not changed", "what=%s why=%s", what, LogValue(found.status().message()));
    } else if (!found->empty()) {
      LogInfo("reload: changed", "what=%s found=%s", what, LogValue(*found));
    }
  }
  LogInfo("reload: done", "ok=%d", values.ok());
}

}  // namespace sangam
