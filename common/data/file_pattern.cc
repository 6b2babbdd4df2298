#include "common/data/file_pattern.h"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
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

// Whether what a wildcard found may stand here. What cannot be examined stands: opening it says
// what is wrong with it.
bool HasKind(const std::string& path, bool folder) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) return true;
  return std::filesystem::is_directory(status) == folder;
}

// Walks through the folders below a root for one pattern.
class Search {
 public:
  Search(const DataRoot& root, absl::string_view pattern, const std::atomic<bool>* cancelled)
      : root_(root), pattern_(pattern), cancelled_(cancelled) {}

  // What matches a pattern's next component, below each of the paths that match what stands before
  // it.
  absl::StatusOr<std::vector<std::string>> Extend(const std::vector<std::string>& prefixes,
                                                  const std::string& component, bool last) const {
    std::vector<std::string> extended;
    for (const std::string& prefix : prefixes) {
      const auto below = [&prefix](const std::string& name) {
        return prefix.empty() ? name : absl::StrCat(prefix, "/", name);
      };
      std::vector<std::string> names = {component};
      if (HasWildcard(component)) {
        ASSIGN_OR_RETURN(names, MatchingNames(prefix, component));
      }
      for (const std::string& name : names) {
        RETURN_IF_ERROR(CheckCancelled());
        const absl::StatusOr<std::string> real = root_.Resolve(below(name));
        // Not every folder that a wildcard found has it.
        if (absl::IsNotFound(real.status()) && name == component) continue;
        if (!real.ok()) return real.status();
        if (!HasKind(*real, /*folder=*/!last)) continue;
        RETURN_IF_ERROR(CheckCount(extended.size() + 1));
        extended.push_back(below(name));
      }
    }
    return extended;
  }

  absl::Status CheckCancelled() const {
    if (cancelled_ == nullptr || !cancelled_->load(std::memory_order_relaxed)) {
      return absl::OkStatus();
    }
    return absl::CancelledError(
        absl::StrCat("search for \"", absl::CEscape(pattern_), "\" was cancelled"));
  }

 private:
  absl::Status CheckCount(size_t matches) const {
    if (matches <= kMaxFiles) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("data path \"", absl::CEscape(pattern_),
                                                   "\": found more matches than the ", kMaxFiles,
                                                   " that are allowed"));
  }

  // Names in the folder `relative` of the root ("" is the root itself) that match, sorted.
  absl::StatusOr<std::vector<std::string>> MatchingNames(const std::string& relative,
                                                         const std::string& wildcard) const {
    std::string folder = root_.path();
    if (!relative.empty()) {
      ASSIGN_OR_RETURN(folder, root_.Resolve(relative));
    }
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator entry(folder, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      RETURN_IF_ERROR(CheckCancelled());
      std::string name = entry->path().filename().string();
      if (fnmatch(wildcard.c_str(), name.c_str(), FNM_PERIOD | FNM_NOESCAPE) != 0) continue;
      RETURN_IF_ERROR(CheckCount(names.size() + 1));
      names.push_back(std::move(name));
    }
    if (error) {
      return PathError(error.value(),
                       absl::StrCat("data path \"", absl::CEscape(relative), "\" below data_root ",
                                    root_.path(), ": cannot list the folder"));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const DataRoot& root_;
  const absl::string_view pattern_;
  const std::atomic<bool>* const cancelled_;
};

}  // namespace

absl::StatusOr<std::vector<NamedFile>> FindFiles(const DataRoot& root, absl::string_view pattern,
                                                 const std::atomic<bool>* cancelled) {
  if (!HasWildcard(pattern)) {
    ASSIGN_OR_RETURN(std::string real, root.Resolve(pattern));
    return std::vector<NamedFile>{{std::move(real), std::string(pattern)}};
  }
  RETURN_IF_ERROR(root.CheckInside(pattern));
  const Search search(root, pattern, cancelled);
  std::vector<std::string> matches = {""};
  const std::vector<std::string> components = absl::StrSplit(pattern, '/', absl::SkipEmpty());
  for (size_t c = 0; c < components.size(); ++c) {
    const bool last = c + 1 == components.size();
    ASSIGN_OR_RETURN(matches, search.Extend(matches, components[c], last));
  }
  if (matches.empty()) {
    return absl::NotFoundError(absl::StrCat("data path \"", absl::CEscape(pattern),
                                            "\": found no file that matches below data_root ",
                                            root.path(), ", expected at least one"));
  }
  std::sort(matches.begin(), matches.end());
  std::vector<NamedFile> files;
  for (std::string& name : matches) {
    RETURN_IF_ERROR(search.CheckCancelled());
    ASSIGN_OR_RETURN(std::string real, root.Resolve(name));
    files.push_back({std::move(real), std::move(name)});
  }
  return files;
}

}  // namespace sangam
