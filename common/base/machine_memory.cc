#include "common/base/machine_memory.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace sangam {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// "max" and what cannot be read are no limit.
uint64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  uint64_t bytes = 0;
  return file >> text && absl::SimpleAtoi(text, &bytes) && bytes > 0 ? bytes : kNoLimit;
}

// Of the group at `folder` and of those around it, up to `root`.
uint64_t LeastLimit(std::string folder, const std::string& root, const char* file) {
  uint64_t least = kNoLimit;
  while (folder.size() >= root.size()) {
    least = std::min(least, LimitIn(absl::StrCat(folder, "/", file)));
    const size_t slash = folder.rfind('/');
    if (slash == std::string::npos) break;
    folder.resize(slash);
  }
  return least;
}

uint64_t CgroupLimit(const MemorySources& sources) {
  std::ifstream file(sources.own_cgroups);
  uint64_t least = kNoLimit;
  // "0::/path" in version 2, "4:memory:/path" in version 1. In a container the path is often that
  // of the host, while what is mounted is the container's own: the root is looked at in any case.
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::string path(absl::StripSuffix(parts[2], "/"));
    if (parts[0] == "0" && parts[1].empty()) {
      const std::string& root = sources.cgroup_root;
      least = std::min(least, LeastLimit(absl::StrCat(root, path), root, "memory.max"));
      continue;
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") == controllers.end()) continue;
    const std::string root = absl::StrCat(sources.cgroup_root, "/memory");
    least = std::min(least, LeastLimit(absl::StrCat(root, path), root, "memory.limit_in_bytes"));
  }
  return least;
}

uint64_t MachineBytes(const MemorySources& sources) {
  std::ifstream file(sources.meminfo);
  for (std::string line; std::getline(file, line);) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, "MemTotal:") || !absl::ConsumeSuffix(&rest, "kB")) continue;
    uint64_t kibibytes = 0;
    if (absl::SimpleAtoi(rest, &kibibytes)) return kibibytes * 1024;
  }
  return kNoLimit;
}

}  // namespace

uint64_t UsableMemoryBytes(const MemorySources& sources) {
  const uint64_t bytes = std::min(CgroupLimit(sources), MachineBytes(sources));
  return bytes == kNoLimit ? 0 : bytes;
}

}  // namespace sangam
