#include "common/flags/flags.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/suggestion.h"
#include "common/flags/flag_value.h"
#include "common/flags/wrap.h"

namespace sangam {
namespace {

constexpr size_t kHelpColumns = 80;
constexpr size_t kHelpIndent = 6;

}  // namespace

FlagSet::Flag* FlagSet::Add(const Text& text, std::string default_text, Setter set) {
  SANGAM_CHECK(Find(text.name) == nullptr);
  for (const Flag& flag : flags_) {
    SANGAM_CHECK(text.letter == 0 || flag.text.letter != text.letter);
  }
  Flag flag;
  flag.text = text;
  flag.default_text = std::move(default_text);
  flags_.push_back(std::move(flag));
  setters_.push_back(std::move(set));
  return &flags_.back();
}

void FlagSet::AddString(const Text& text, std::string* target) {
  Add(text, *target, [target](absl::string_view value, bool) {
    *target = std::string(value);
    return absl::OkStatus();
  });
}

void FlagSet::AddRepeated(const Text& text, std::vector<std::string>* target) {
  Flag* const flag = Add(text, "", [target](absl::string_view value, bool first) {
    if (first) target->clear();
    target->emplace_back(value);
    return absl::OkStatus();
  });
  flag->repeats = true;
}

void FlagSet::AddSwitch(const Text& text, bool* target) {
  Flag* const flag =
      Add(text, *target ? "true" : "", [target](absl::string_view value, bool) -> absl::Status {
        ASSIGN_OR_RETURN(*target, ParseSwitch(value));
        return absl::OkStatus();
      });
  flag->is_switch = true;
}

void FlagSet::AddCount(const Text& text, uint64_t* target, uint64_t minimum, uint64_t maximum) {
  Add(text, absl::StrCat(*target),
      [target, minimum, maximum](absl::string_view value, bool) -> absl::Status {
        ASSIGN_OR_RETURN(*target, ParseCount(value, minimum, maximum));
        return absl::OkStatus();
      });
}

void FlagSet::AddOptionalCount(const Text& text, std::optional<uint64_t>* target, uint64_t minimum,
                               uint64_t maximum) {
  Add(text, "", [target, minimum, maximum](absl::string_view value, bool) -> absl::Status {
    ASSIGN_OR_RETURN(*target, ParseCount(value, minimum, maximum));
    return absl::OkStatus();
  });
}

void FlagSet::AddBytes(const Text& text, uint64_t* target) {
  Add(text, *target == 0 ? "" : FormatBytes(*target),
      [target](absl::string_view value, bool) -> absl::Status {
        ASSIGN_OR_RETURN(*target, ParseBytes(value));
        return absl::OkStatus();
      });
}

void FlagSet::AddReal(const Text& text, double* target, double minimum, double maximum) {
  Add(text, absl::StrCat(*target),
      [target, minimum, maximum](absl::string_view value, bool) -> absl::Status {
        ASSIGN_OR_RETURN(*target, ParseReal(value, minimum, maximum));
        return absl::OkStatus();
      });
}

void FlagSet::AddDuration(const Text& text, absl::Duration* target, absl::Duration minimum,
                          absl::Duration maximum) {
  const bool endless = *target == absl::InfiniteDuration();
  Add(text, endless ? "" : absl::FormatDuration(*target),
      [target, minimum, maximum](absl::string_view value, bool) -> absl::Status {
        ASSIGN_OR_RETURN(*target, ParseTime(value, minimum, maximum));
        return absl::OkStatus();
      });
}

void FlagSet::AddChoice(const Text& text, const std::vector<std::string>& choices,
                        std::string* target) {
  Text shown = text;
  shown.value = absl::StrJoin(choices, "|");
  Flag* const flag =
      Add(shown, *target, [target, choices](absl::string_view value, bool) -> absl::Status {
        if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
          std::string expected = choices.back();
          if (choices.size() > 1) {
            expected = absl::StrCat(absl::StrJoin(choices.begin(), choices.end() - 1, ", "), " or ",
                                    expected);
          }
          return MalformedValue(value, absl::StrCat(expected, DidYouMean(value, choices)));
        }
        *target = std::string(value);
        return absl::OkStatus();
      });
  flag->choices = choices;
}

const FlagSet::Flag* FlagSet::Find(absl::string_view name) const {
  const auto found = std::find_if(flags_.begin(), flags_.end(),
                                  [&name](const Flag& flag) { return flag.text.name == name; });
  return found == flags_.end() ? nullptr : &*found;
}

void FlagSet::LimitSources(const FlagSet& shared) {
  for (Flag& flag : flags_) {
    const Flag* const same = shared.Find(flag.text.name);
    if (same == nullptr || same->text.value != flag.text.value ||
        same->text.help != flag.text.help) {
      flag.text.command_line_only = true;
    }
  }
}

FlagSet::Values FlagSet::values() const {
  Values values;
  for (const Flag& flag : flags_) {
    if (flag.text.command_line_only) continue;
    values[flag.text.name] = flag.origin == Origin::kDefault ? flag.default_text : flag.given;
  }
  return values;
}

absl::StatusOr<size_t> FlagSet::IndexOf(absl::string_view name) const {
  const std::string plain = absl::StrReplaceAll(name, {{"-", "_"}});
  const Flag* const flag = Find(plain);
  if (flag != nullptr) return flag - flags_.data();
  std::vector<std::string> names;
  for (const Flag& known : flags_) {
    if (!known.text.hidden) names.push_back(absl::StrCat("--", known.text.name));
  }
  names.emplace_back("--help");
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag --", name, DidYouMean(absl::StrCat("--", plain), names)));
}

absl::Status FlagSet::SetAt(size_t index, absl::string_view value, Origin origin,
                            const std::string& place) {
  Flag* const flag = &flags_[index];
  if (origin < flag->origin) return absl::OkStatus();
  // A line of a file has no name of a flag in it.
  const std::string context =
      origin == Origin::kFile ? absl::StrCat(place, ": ", flag->text.name) : place;
  RETURN_IF_ERROR(setters_[index](value, origin != flag->origin), "%s", context);
  flag->given = std::string(value);
  flag->origin = origin;
  flag->place = place;
  return absl::OkStatus();
}

absl::Status FlagSet::Set(absl::string_view name, absl::string_view value, Origin origin,
                          const std::string& place) {
  const Flag* const flag = Find(name);
  if (flag != nullptr && !flag->text.command_line_only) {
    return SetAt(flag - flags_.data(), value, origin, place);
  }
  std::vector<std::string> names;
  for (const Flag& known : flags_) {
    if (!known.text.command_line_only) names.push_back(known.text.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": unknown name '", name, "'", DidYouMean(name, names)));
}

absl::StatusOr<FlagSet::Given> FlagSet::Read(absl::string_view argument) const {
  Given given;
  if (argument[1] == '-') {
    const size_t equals = argument.find('=');
    if (equals != absl::string_view::npos) given.value = argument.substr(equals + 1);
    ASSIGN_OR_RETURN(given.index, IndexOf(argument.substr(2, equals - 2)));
    return given;
  }
  const auto found = std::find_if(flags_.begin(), flags_.end(), [&argument](const Flag& flag) {
    return flag.text.letter == argument[1];
  });
  if (found == flags_.end() || (found->is_switch && argument.size() > 2)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown flag ", argument, "; flags begin with two dashes"));
  }
  given.index = found - flags_.begin();
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
    const Flag& flag = flags_[given.index];
    if (!given.value.has_value() && flag.is_switch) given.value = "true";
    if (!given.value.has_value()) {
      const Text& text = flag.text;
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("flag --", text.name, " needs a value: --", text.name, "=", text.value));
      }
      given.value = arguments[++i];
    }
    RETURN_IF_ERROR(SetAt(given.index, *given.value, Origin::kCommandLine,
                          absl::StrCat("flag --", flag.text.name)));
  }
  return positional;
}

std::string FlagSet::WholeHelp(const Flag& flag) {
  std::string help = flag.text.help;
  if (!flag.default_text.empty()) absl::StrAppend(&help, " Default: ", flag.default_text, ".");
  if (flag.text.reloads) absl::StrAppend(&help, " SIGHUP takes a new value.");
  return help;
}

std::string FlagSet::Help() const {
  std::string result;
  for (const Flag& flag : flags_) {
    if (flag.text.hidden) continue;
    absl::StrAppend(&result, "  --", flag.text.name);
    if (!flag.is_switch) absl::StrAppend(&result, "=", flag.text.value);
    if (flag.text.letter != 0) {
      const std::string letter(1, flag.text.letter);
      absl::StrAppend(&result, ", -", letter, flag.is_switch ? "" : " ",
                      flag.is_switch ? "" : flag.text.value);
    }
    absl::StrAppend(&result, "\n");
    absl::StrAppend(&result, HangingText("", WholeHelp(flag), kHelpIndent, kHelpColumns));
  }
  return result;
}

}  // namespace sangam
