#include "common/admin/admin_flags.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {

void AdminFlags::AddFlags(FlagSet* flags) {
  flags->AddString({"admin_listen", "HOST:PORT",
                    "Where /livez, /readyz, /metrics and /statusz answer over HTTP; port 0 picks a "
                    "free one. Default: nowhere."},
                   &admin_listen);
  flags->AddChoice({"log_format", "", "Lines for people, or one JSON object a line."},
                   {"text", "json"}, &log_format);
}

absl::Status AdminFlags::SetUpLog(absl::string_view component) const {
  return WithContext(SetLogFormat(log_format, component), "--log_format");
}

std::vector<std::pair<std::string, std::string>> FlagsInEffect(const FlagSet& flags) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const FlagSet::Flag& flag : flags.flags()) {
    if (flag.text.command_line_only) continue;
    values.emplace_back(flag.text.name,
                        flag.origin == Origin::kDefault ? flag.default_text : flag.given);
  }
  return values;
}

}  // namespace sangam
