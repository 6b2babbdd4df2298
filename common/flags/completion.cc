#include "common/flags/completion.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

// The kinds of values that a shell knows something of.
bool IsFolder(const FlagSet::Flag& flag) { return absl::StrContains(flag.text.value, "DIR"); }
bool IsFile(const FlagSet::Flag& flag) { return absl::StrContains(flag.text.value, "FILE"); }

// What may stand at the place of the first argument: words, or a file.
std::vector<std::string> FirstWords(const CompletedVerb& verb) {
  const std::vector<std::string> arguments = absl::StrSplit(verb.arguments, ' ');
  if (!absl::StrContains(arguments[0], '|')) return {};
  return absl::StrSplit(arguments[0], '|');
}
bool TakesFile(const CompletedVerb& verb) { return absl::StartsWith(verb.arguments, "FILE"); }

// The first sentence.
std::string Short(absl::string_view text) {
  const size_t end = text.find(". ");
  std::string sentence(text.substr(0, end));
  if (absl::EndsWith(sentence, ".")) sentence.pop_back();
  return sentence;
}

// For a word in single quotes of a shell.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// The inside of an _arguments specification, which gives brackets and colons a meaning.
std::string ZshText(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string BashValues(const CompletedVerb& verb, const FlagSet::Flag& flag) {
  std::string action;
  if (!flag.choices.empty()) {
    action = absl::StrCat("COMPREPLY=($(compgen -W ", Quoted(absl::StrJoin(flag.choices, " ")),
                          " -- \"$cur\"))");
  } else if (IsFolder(flag)) {
    action = "compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\"))";
  } else if (IsFile(flag)) {
    action = "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"))";
  } else {
    return "";
  }
  return absl::StrCat("    ", verb.name, ":--", flag.text.name, ") ", action, "; return ;;\n");
}

std::vector<std::string> FlagWords(const FlagSet& flags) {
  std::vector<std::string> words;
  for (const FlagSet::Flag& flag : flags.flags()) {
    if (flag.text.hidden) continue;
    words.push_back(absl::StrCat("--", flag.text.name, flag.is_switch ? "" : "="));
  }
  words.emplace_back("--help");
  return words;
}

}  // namespace

std::string BashCompletion(absl::string_view program, const std::vector<CompletedVerb>& verbs) {
  std::string values;
  std::string flags;
  std::string arguments;
  std::vector<std::string> names;
  for (const CompletedVerb& verb : verbs) {
    names.push_back(verb.name);
    for (const FlagSet::Flag& flag : verb.flags->flags()) {
      if (!flag.text.hidden) absl::StrAppend(&values, BashValues(verb, flag));
    }
    absl::StrAppend(&flags, "    ", verb.name,
                    ") flags=", Quoted(absl::StrJoin(FlagWords(*verb.flags), " ")), " ;;\n");
    const std::vector<std::string> words = FirstWords(verb);
    if (!words.empty()) {
      absl::StrAppend(&arguments, "    ", verb.name, ") COMPREPLY=($(compgen -W ",
                      Quoted(absl::StrJoin(words, " ")), " -- \"$cur\")) ;;\n");
    } else if (TakesFile(verb)) {
      absl::StrAppend(&arguments, "    ", verb.name,
                      ") compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n");
    }
  }
  names.emplace_back("help");
  const std::string function = absl::StrCat("_", absl::StrReplaceAll(program, {{"-", "_"}}));
  // Bash cuts words at '=': "--flag=va" comes as "--flag" "=" "va".
  return absl::StrCat(
      "# bash completion for ", program, "\n", function, "() {\n",
      "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  local verb=\"${COMP_WORDS[1]}\" flags=''\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W ",
      Quoted(absl::StrCat(absl::StrJoin(names, " "), " --help --version")),
      " -- \"$cur\"))\n"
      "    return\n"
      "  fi\n"
      "  if [[ $cur == '=' ]]; then\n"
      "    cur=''\n"
      "  elif [[ $prev == '=' ]] && ((COMP_CWORD > 2)); then\n"
      "    prev=\"${COMP_WORDS[COMP_CWORD-2]}\"\n"
      "  fi\n"
      "  if [[ $verb == help ]]; then\n"
      "    COMPREPLY=($(compgen -W ",
      Quoted(absl::StrJoin(names, " ")),
      " -- \"$cur\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"$verb:$prev\" in\n",
      values,
      "  esac\n"
      "  case \"$verb\" in\n",
      flags,
      "  esac\n"
      "  if [[ $cur == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
      "    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; "
      "fi\n"
      "    return\n"
      "  fi\n"
      "  case \"$verb\" in\n",
      arguments,
      "  esac\n"
      "}\n"
      "complete -F ",
      function, " ", program, "\n");
}

std::string ZshCompletion(absl::string_view program, const std::vector<CompletedVerb>& verbs) {
  const std::string function = absl::StrCat("_", program);
  std::string text = absl::StrCat("#compdef ", program, "\n\n", function,
                                  "() {\n"
                                  "  local -a verbs\n"
                                  "  verbs=(\n");
  for (const CompletedVerb& verb : verbs) {
    absl::StrAppend(&text, "    ",
                    Quoted(absl::StrCat(verb.name, ":", ZshText(Short(verb.summary)))), "\n");
  }
  absl::StrAppend(&text,
                  "  )\n"
                  "  if ((CURRENT == 2)); then\n"
                  "    _describe verb verbs\n"
                  "    return\n"
                  "  fi\n"
                  "  local verb=$words[2]\n"
                  "  shift words\n"
                  "  ((CURRENT--))\n"
                  "  case $verb in\n");
  for (const CompletedVerb& verb : verbs) {
    absl::StrAppend(&text, "    ", verb.name, ")\n      _arguments");
    for (const FlagSet::Flag& flag : verb.flags->flags()) {
      if (flag.text.hidden) continue;
      std::string spec =
          absl::StrCat(flag.repeats ? "*" : "", "--", flag.text.name, flag.is_switch ? "" : "=",
                       "[", ZshText(Short(flag.text.help)), "]");
      if (!flag.is_switch) {
        absl::StrAppend(&spec, ":", ZshText(flag.text.value), ":");
        if (!flag.choices.empty()) {
          absl::StrAppend(&spec, "(", absl::StrJoin(flag.choices, " "), ")");
        } else if (IsFolder(flag)) {
          absl::StrAppend(&spec, "_files -/");
        } else if (IsFile(flag)) {
          absl::StrAppend(&spec, "_files");
        }
      }
      absl::StrAppend(&text, " \\\n        ", Quoted(spec));
    }
    const std::vector<std::string> words = FirstWords(verb);
    if (!words.empty()) {
      absl::StrAppend(&text, " \\\n        '1:what:(", absl::StrJoin(words, " "), ")'");
    } else if (TakesFile(verb)) {
      absl::StrAppend(&text, " \\\n        '1:file:_files'");
    }
    absl::StrAppend(&text, " \\\n        '--help[Show help]'\n      ;;\n");
  }
  absl::StrAppend(&text, "  esac\n}\n\n", function, " \"$@\"\n");
  return text;
}

std::string FishCompletion(absl::string_view program, const std::vector<CompletedVerb>& verbs) {
  std::string text =
      absl::StrCat("# fish completion for ", program, "\ncomplete -c ", program, " -f\n");
  for (const CompletedVerb& verb : verbs) {
    absl::StrAppend(&text, "complete -c ", program, " -n __fish_use_subcommand -a ", verb.name,
                    " -d ", Quoted(Short(verb.summary)), "\n");
  }
  for (const CompletedVerb& verb : verbs) {
    const std::string begin = absl::StrCat("complete -c ", program, " -n ",
                                           Quoted("__fish_seen_subcommand_from " + verb.name));
    for (const FlagSet::Flag& flag : verb.flags->flags()) {
      if (flag.text.hidden) continue;
      absl::StrAppend(&text, begin, " -l ", flag.text.name);
      if (flag.text.letter != 0) absl::StrAppend(&text, " -s ", std::string(1, flag.text.letter));
      if (!flag.choices.empty()) {
        absl::StrAppend(&text, " -x -a ", Quoted(absl::StrJoin(flag.choices, " ")));
      } else if (IsFolder(flag)) {
        absl::StrAppend(&text, " -x -a '(__fish_complete_directories)'");
      } else if (!flag.is_switch) {
        absl::StrAppend(&text, IsFile(flag) ? " -r -F" : " -x");
      }
      absl::StrAppend(&text, " -d ", Quoted(Short(flag.text.help)), "\n");
    }
    const std::vector<std::string> words = FirstWords(verb);
    if (!words.empty()) {
      absl::StrAppend(&text, begin, " -a ", Quoted(absl::StrJoin(words, " ")), "\n");
    } else if (TakesFile(verb)) {
      absl::StrAppend(&text, begin, " -F\n");
    }
  }
  return text;
}

}  // namespace sangam
