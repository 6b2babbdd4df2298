#include "common/flags/flag_sources.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/base/suggestion.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

constexpr absl::string_view kPrefix = "SANGAM_";
constexpr size_t kMaxConfigBytes = size_t{1} << 20;
// The file that a value of this name would be in cannot name itself.
constexpr absl::string_view kConfigFlag = "config";

// "NAME" and "value" of "NAME=value".
std::pair<absl::string_view, absl::string_view> NameAndValue(absl::string_view variable) {
  const size_t equals = variable.find('=');
  if (equals == absl::string_view::npos) return {variable, ""};
  return {variable.substr(0, equals), variable.substr(equals + 1)};
}

bool IsUrl(absl::string_view value) {
  return absl::StartsWith(value, "tcp://") || absl::StartsWith(value, "udp://") ||
         absl::StartsWith(value, "sctp://");
}

// Without its comment and the spaces at its ends.
absl::string_view Meaning(absl::string_view line) {
  for (size_t at = line.find('#'); at != absl::string_view::npos; at = line.find('#', at + 1)) {
    if (at == 0 || absl::ascii_isspace(static_cast<unsigned char>(line[at - 1]))) {
      line = line.substr(0, at);
      break;
    }
  }
  return absl::StripAsciiWhitespace(line);
}

}  // namespace

std::string EnvironmentName(absl::string_view flag) {
  return absl::StrCat(kPrefix, absl::AsciiStrToUpper(flag));
}

bool IsServiceLink(absl::string_view name, absl::string_view value) {
  if (!absl::StartsWith(name, kPrefix)) return false;
  const std::vector<absl::string_view> words = absl::StrSplit(name, '_');
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t left = words.size() - i - 1;
    // <SERVICE>_SERVICE_HOST, <SERVICE>_SERVICE_PORT, <SERVICE>_SERVICE_PORT_<NAME>
    if (words[i] == "SERVICE" && left >= 1) {
      if (words[i + 1] == "HOST" && left == 1) return true;
      if (words[i + 1] == "PORT") return true;
    }
    if (words[i] != "PORT") continue;
    // <SERVICE>_PORT=tcp://..., <SERVICE>_PORT_7070_TCP[_PROTO|_PORT|_ADDR]
    if (left == 0 && IsUrl(value)) return true;
    int port = 0;
    if ((left == 2 || left == 3) && absl::SimpleAtoi(words[i + 1], &port) &&
        (words[i + 2] == "TCP" || words[i + 2] == "UDP" || words[i + 2] == "SCTP")) {
      return left == 2 || words[i + 3] == "PROTO" || words[i + 3] == "PORT" ||
             words[i + 3] == "ADDR";
    }
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> SetFromEnvironment(
    const std::vector<std::string>& environment, FlagSet* flags) {
  std::vector<std::string> names;
  for (const FlagSet::Flag& flag : flags->flags()) {
    if (!flag.text.command_line_only) names.push_back(EnvironmentName(flag.text.name));
  }
  std::vector<std::string> unknown;
  for (const std::string& variable : environment) {
    const auto [name, value] = NameAndValue(variable);
    if (!absl::StartsWith(name, kPrefix) || value.empty() || IsServiceLink(name, value)) continue;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      unknown.push_back(absl::StrCat(name, DidYouMean(name, names)));
      continue;
    }
    RETURN_IF_ERROR(flags->Set(absl::AsciiStrToLower(name.substr(kPrefix.size())), value,
                               Origin::kEnvironment, absl::StrCat("environment variable ", name)));
  }
  return unknown;
}

std::string EnvironmentValue(const std::vector<std::string>& environment, absl::string_view flag) {
  const std::string wanted = EnvironmentName(flag);
  for (const std::string& variable : environment) {
    const auto [name, value] = NameAndValue(variable);
    if (name == wanted) return std::string(value);
  }
  return "";
}

absl::Status SetFromConfigText(absl::string_view text, const std::string& path, FlagSet* flags,
                               const std::function<bool(absl::string_view)>& elsewhere) {
  std::map<std::string, size_t> seen;  // name -> line
  size_t number = 0;
  for (const absl::string_view whole : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view line = Meaning(whole);
    if (line.empty()) continue;
    const std::string place = absl::StrCat(path, ":", number);
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": found '", line.substr(0, 80), "', expected name = value"));
    }
    const std::string name = absl::StrReplaceAll(
        absl::StripTrailingAsciiWhitespace(line.substr(0, equals)), {{"-", "_"}});
    const absl::string_view value = absl::StripLeadingAsciiWhitespace(line.substr(equals + 1));
    const FlagSet::Flag* const flag = flags->Find(name);
    if (flag == nullptr && elsewhere(name)) continue;
    if (name == kConfigFlag) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": a configuration file cannot name another one"));
    }
    const auto [first, fresh] = seen.emplace(name, number);
    if (!fresh && (flag == nullptr || !flag->repeats)) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": ", name, " has a value already in line ", first->second));
    }
    RETURN_IF_ERROR(flags->Set(name, value, Origin::kFile, place));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadConfigFile(const std::string& path) {
  const auto fault = [&path](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("configuration file \"", path, "\": ", what));
  };
  // A FIFO must not hold up the start.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return fault(std::strerror(errno));
  std::string text;
  std::array<char, 4096> part;
  ssize_t size = 0;
  while (text.size() <= kMaxConfigBytes) {
    size = read(file, part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(part.data(), static_cast<size_t>(size));
  }
  const int error = errno;
  close(file);
  if (size < 0) return fault(std::strerror(error));
  if (text.size() > kMaxConfigBytes) return fault("larger than 1 MiB");
  return text;
}

std::string ConfigText(const FlagSet& flags) {
  std::string text;
  for (const FlagSet::Flag& flag : flags.flags()) {
    if (flag.text.command_line_only) continue;
    const bool given = flag.origin != Origin::kDefault;
    const std::string value = given ? flag.given : flag.default_text;
    // What has no value of its own is explained in the help.
    const bool comment = (!given && value.empty()) || flag.text.name == kConfigFlag;
    absl::StrAppend(&text, comment ? "# " : "", flag.text.name, " =", value.empty() ? "" : " ",
                    value, "  # ", given ? flag.place : "default", "\n");
  }
  return text;
}

}  // namespace sangam
