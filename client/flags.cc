#include "client/flags.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/suggestion.h"
#include "client/wrap.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

constexpr size_t kHelpColumns = 80;
constexpr size_t kHelpIndent = 6;

absl::Status Malformed(absl::string_view found, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("found '", found, "', expected ", expected));
}

absl::StatusOr<uint64_t> ParseCount(absl::string_view value, uint64_t minimum, uint64_t maximum) {
  uint64_t number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= minimum && number <= maximum) return number;
  if (maximum == std::numeric_limits<uint64_t>::max()) {
    return Malformed(value, absl::StrCat("a whole number, at least ", minimum));
  }
  return Malformed(value, absl::StrCat("a whole number from ", minimum, " to ", maximum));
}

}  // namespace

void FlagSet::Add(const Text& text, std::string default_text, bool is_switch,
                  std::function<absl::Status(absl::string_view)> set) {
  SANGAM_CHECK(!Find(text.name).ok());
  for (const Flag& flag : flags_) {
    SANGAM_CHECK(text.letter == 0 || flag.text.letter != text.letter);
  }
  flags_.push_back(Flag{text, std::move(default_text), is_switch, std::move(set)});
}

void FlagSet::AddString(const Text& text, std::string* target) {
  Add(text, *target, false, [target](absl::string_view value) {
    *target = std::string(value);
    return absl::OkStatus();
  });
}

void FlagSet::AddRepeated(const Text& text, std::vector<std::string>* target) {
  Add(text, "", false, [target](absl::string_view value) {
    target->emplace_back(value);
    return absl::OkStatus();
  });
}

void FlagSet::AddSwitch(const Text& text, bool* target) {
  Add(text, *target ? "true" : "", true, [target](absl::string_view value) -> absl::Status {
    if (value != "true" && value != "false") return Malformed(value, "true or false");
    *target = value == "true";
    return absl::OkStatus();
  });
}

void FlagSet::AddCount(const Text& text, uint64_t* target, uint64_t minimum, uint64_t maximum) {
  Add(text, absl::StrCat(*target), false,
      [target, minimum, maximum](absl::string_view value) -> absl::Status {
        ASSIGN_OR_RETURN(*target, ParseCount(value, minimum, maximum));
        return absl::OkStatus();
      });
}

void FlagSet::AddOptionalCount(const Text& text, std::optional<uint64_t>* target, uint64_t minimum,
                               uint64_t maximum) {
  Add(text, "", false, [target, minimum, maximum](absl::string_view value) -> absl::Status {
    ASSIGN_OR_RETURN(*target, ParseCount(value, minimum, maximum));
    return absl::OkStatus();
  });
}

void FlagSet::AddDuration(const Text& text, absl::Duration* target) {
  const bool endless = *target == absl::InfiniteDuration();
  Add(text, endless ? "" : absl::FormatDuration(*target), false,
      [target](absl::string_view value) -> absl::Status {
        absl::Duration duration;
        if (!absl::ParseDuration(value, &duration) || duration <= absl::ZeroDuration() ||
            duration == absl::InfiniteDuration()) {
          return Malformed(value, "a time such as 30s, 250ms or 1m30s");
        }
        *target = duration;
        return absl::OkStatus();
      });
}

void FlagSet::AddChoice(const Text& text, const std::vector<std::string>& choices,
                        std::string* target) {
  Text shown = text;
  shown.value = absl::StrJoin(choices, "|");
  Add(shown, *target, false, [target, choices](absl::string_view value) -> absl::Status {
    if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
      return Malformed(value, absl::StrJoin(choices, " or "));
    }
    *target = std::string(value);
    return absl::OkStatus();
  });
}

absl::StatusOr<const FlagSet::Flag*> FlagSet::Find(absl::string_view name) const {
  const std::string plain = absl::StrReplaceAll(name, {{"-", "_"}});
  std::vector<std::string> names;
  for (const Flag& flag : flags_) {
    if (flag.text.name == plain) return &flag;
    names.push_back(absl::StrCat("--", flag.text.name));
  }
  names.emplace_back("--help");
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag --", name, DidYouMean(absl::StrCat("--", plain), names)));
}

absl::StatusOr<FlagSet::Given> FlagSet::Read(absl::string_view argument) const {
  Given given;
  if (argument[1] == '-') {
    const size_t equals = argument.find('=');
    if (equals != absl::string_view::npos) given.value = argument.substr(equals + 1);
    ASSIGN_OR_RETURN(given.flag, Find(argument.substr(2, equals - 2)));
    return given;
  }
  const auto found = std::find_if(flags_.begin(), flags_.end(), [&argument](const Flag& flag) {
    return flag.text.letter == argument[1];
  });
  if (found == flags_.end() || (found->is_switch && argument.size() > 2)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown flag ", argument, "; flags begin with two dashes"));
  }
  given.flag = &*found;
  if (argument.size() > 2) given.value = argument.substr(argument[2] == '=' ? 3 : 2);
  return given;
}

absl::StatusOr<std::vector<std::string>> FlagSet::Parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> positional;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view argument = arguments[i];
    if (argument.size() < 2 || argument[0] != '-') {
      positional.emplace_back(argument);
      continue;
    }
    if (argument == "--") {
      positional.insert(positional.end(), arguments.begin() + static_cast<ptrdiff_t>(i) + 1,
                        arguments.end());
      break;
    }
    if (argument == "--help" || argument == "-h") {
      help_requested_ = true;
      continue;
    }
    ASSIGN_OR_RETURN(Given given, Read(argument));
    if (!given.value.has_value() && given.flag->is_switch) given.value = "true";
    if (!given.value.has_value()) {
      const Text& text = given.flag->text;
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("flag --", text.name, " needs a value: --", text.name, "=", text.value));
      }
      given.value = arguments[++i];
    }
    RETURN_IF_ERROR(given.flag->set(*given.value), "flag --%s", given.flag->text.name);
  }
  return positional;
}

std::string FlagSet::Help() const {
  std::string result;
  for (const Flag& flag : flags_) {
    absl::StrAppend(&result, "  --", flag.text.name);
    if (!flag.is_switch) absl::StrAppend(&result, "=", flag.text.value);
    if (flag.text.letter != 0) {
      const std::string letter(1, flag.text.letter);
      absl::StrAppend(&result, ", -", letter, flag.is_switch ? "" : " ",
                      flag.is_switch ? "" : flag.text.value);
    }
    absl::StrAppend(&result, "\n");
    std::string help = flag.text.help;
    if (!flag.default_text.empty()) absl::StrAppend(&help, " Default: ", flag.default_text, ".");
    absl::StrAppend(&result, HangingText("", help, kHelpIndent, kHelpColumns));
  }
  return result;
}

}  // namespace sangam
