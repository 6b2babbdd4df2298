#include "common/data/file_pattern.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/data/data_root.h"
#include "common/data/input_file.h"

namespace sangam {
namespace {

constexpr size_t kMaxFiles = 65536;

bool HasWildcard(absl::string_view name) {
  return name.find_first_of("*?[") != absl::string_view::npos;
}

// Names in the folder `relative` of the root ("" is the root itself) that match, sorted.
absl::StatusOr<std::vector<std::string>> MatchingNames(const DataRoot& root,
                                                       const std::string& relative,
                                                       const std::string& wildcard) {
  std::string folder = root.path();
  if (!relative.empty()) {
    ASSIGN_OR_RETURN(folder, root.Resolve(relative));
  }
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (fnmatch(wildcard.c_str(), name.c_str(), FNM_PERIOD | FNM_NOESCAPE) != 0) continue;
    if (names.size() == kMaxFiles) {
      return absl::InvalidArgumentError(absl::StrCat("data path \"", relative, "/", wildcard,
                                                     "\": more than ", kMaxFiles, " names match"));
    }
    names.push_back(std::move(name));
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat("data path \"", absl::CEscape(relative),
                                               "\" below data_root ", root.path(),
                                               ": cannot list the folder: ", error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Whether what a wildcard found may stand here. What cannot be examined stands: opening it says
// what is wrong with it.
bool HasKind(const std::string& path, bool folder) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) return true;
  return std::filesystem::is_directory(status) == folder;
}

// What matches a pattern's next component, below each of the paths that match what stands before
// it.
absl::StatusOr<std::vector<std::string>> Extend(const DataRoot& root,
                                                const std::vector<std::string>& prefixes,
                                                const std::string& component, bool last) {
  std::vector<std::string> extended;
  for (const std::string& prefix : prefixes) {
    const auto below = [&prefix](const std::string& name) {
      return prefix.empty() ? name : absl::StrCat(prefix, "/", name);
    };
    std::vector<std::string> names = {component};
    if (HasWildcard(component)) {
      ASSIGN_OR_RETURN(names, MatchingNames(root, prefix, component));
    }
    for (const std::string& name : names) {
      const absl::StatusOr<std::string> real = root.Resolve(below(name));
      // Not every folder that a wildcard found has it.
      if (absl::IsNotFound(real.status()) && name == component) continue;
      if (!real.ok()) return real.status();
      if (HasKind(*real, /*folder=*/!last)) extended.push_back(below(name));
    }
  }
  return extended;
}

}  // namespace

absl::StatusOr<std::vector<NamedFile>> FindFiles(const DataRoot& root, absl::string_view pattern) {
  if (!HasWildcard(pattern)) {
    ASSIGN_OR_RETURN(std::string real, root.Resolve(pattern));
    return std::vector<NamedFile>{{std::move(real), std::string(pattern)}};
  }
  RETURN_IF_ERROR(root.CheckInside(pattern));
  std::vector<std::string> matches = {""};
  const std::vector<std::string> components = absl::StrSplit(pattern, '/', absl::SkipEmpty());
  for (size_t c = 0; c < components.size(); ++c) {
    const bool last = c + 1 == components.size();
    ASSIGN_OR_RETURN(matches, Extend(root, matches, components[c], last));
    if (matches.size() > kMaxFiles) {
      return absl::InvalidArgumentError(absl::StrCat("data path \"", absl::CEscape(pattern),
                                                     "\": found ", matches.size(),
                                                     " matches, expected at most ", kMaxFiles));
    }
  }
  if (matches.empty()) {
    return absl::NotFoundError(absl::StrCat("data path \"", absl::CEscape(pattern),
                                            "\": found no file that matches below data_root ",
                                            root.path(), ", expected at least one"));
  }
  std::sort(matches.begin(), matches.end());
  std::vector<NamedFile> files;
  for (std::string& name : matches) {
    ASSIGN_OR_RETURN(std::string real, root.Resolve(name));
    files.push_back({std::move(real), std::move(name)});
  }
  return files;
}

}  // namespace sangam
