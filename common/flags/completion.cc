#include "common/flags/completion.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

// The kinds of values that a shell knows something of.
bool IsFolder(const FlagSet::Flag& flag) { return absl::StrContains(flag.text.value, "DIR"); }
bool IsFile(const FlagSet::Flag& flag) { return absl::StrContains(flag.text.value, "FILE"); }

// The alternatives of each argument: "a|b" is words to write, "NAME|FILE" what stands for others;
// brackets say that it may be left out.
std::vector<std::vector<std::string>> ArgumentsOf(const CompletedVerb& verb) {
  std::vector<std::vector<std::string>> arguments;
  for (absl::string_view argument : absl::StrSplit(verb.arguments, ' ', absl::SkipEmpty())) {
    absl::ConsumePrefix(&argument, "[");
    absl::ConsumeSuffix(&argument, "]");
    arguments.push_back(absl::StrSplit(argument, '|'));
  }
  return arguments;
}

// The words that may stand at the place of the first argument.
std::vector<std::string> FirstWords(const CompletedVerb& verb) {
  std::vector<std::string> words;
  const std::vector<std::vector<std::string>> arguments = ArgumentsOf(verb);
  if (arguments.empty()) return words;
  for (const std::string& word : arguments[0]) {
    if (absl::ascii_islower(static_cast<unsigned char>(word[0]))) words.push_back(word);
  }
  return words;
}

// Whether a file may be an argument: behind the word where there are words.
bool TakesFile(const CompletedVerb& verb) {
  const std::vector<std::vector<std::string>> arguments = ArgumentsOf(verb);
  return std::any_of(arguments.begin(), arguments.end(), [](const auto& alternatives) {
    return std::find(alternatives.begin(), alternatives.end(), "FILE") != alternatives.end();
  });
}

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

std::string BashArguments(const CompletedVerb& verb) {
  const std::vector<std::string> words = FirstWords(verb);
  const absl::string_view files = "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"))";
  if (words.empty()) {
    return TakesFile(verb) ? absl::StrCat("    ", verb.name, ") ", files, " ;;\n") : "";
  }
  return absl::StrCat("    ", verb.name, ")\n      if [[ \" $before \" =~ ' '(",
                      absl::StrJoin(words, "|"), ")' ' ]]; then\n        ",
                      TakesFile(verb) ? files : ":", "\n      else\n        ",
                      "COMPREPLY=($(compgen -W ", Quoted(absl::StrJoin(words, " ")),
                      " -- \"$cur\"))\n      fi\n      ;;\n");
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
    absl::StrAppend(&arguments, BashArguments(verb));
  }
  names.emplace_back("help");
  const std::string function = absl::StrCat("_", absl::StrReplaceAll(program, {{"-", "_"}}));
  // Bash cuts words at '=': "--flag=va" comes as "--flag" "=" "va".
  return absl::StrCat(
      "# bash completion for ", program, "\n", function, "() {\n",
      "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  local verb=\"${COMP_WORDS[1]}\" flags='' before=''\n"
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
      "  before=\"${COMP_WORDS[*]:2:COMP_CWORD-2}\"\n"
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
    }
    if (TakesFile(verb)) {
      absl::StrAppend(&text, " \\\n        '", words.empty() ? 1 : 2, ":file:_files'");
    }
    absl::StrAppend(&text, " \\\n        '--help[Show help]'\n      ;;\n");
  }
  absl::StrAppend(&text, "  esac\n}\n\n", function, " \"$@\"\n");
  return text;
}

std::string FishCompletion(absl::string_view program, const std::vector<CompletedVerb>& verbs) {
  // fish looks for a verb among all words, so that "checkpoint list" would be taken for "list".
  const std::string is_verb =
      absl::StrCat("__", absl::StrReplaceAll(program, {{"-", "_"}}), "_verb_is");
  std::string text = absl::StrCat("# fish completion for ", program, "\nfunction ", is_verb,
                                  "\n  set -l words (commandline -opc)\n"
                                  "  test (count $words) -gt 1; and test $words[2] = $argv[1]\n"
                                  "end\ncomplete -c ",
                                  program, " -f\n");
  for (const CompletedVerb& verb : verbs) {
    absl::StrAppend(&text, "complete -c ", program, " -n __fish_use_subcommand -a ", verb.name,
                    " -d ", Quoted(Short(verb.summary)), "\n");
  }
  for (const CompletedVerb& verb : verbs) {
    const auto when = [&program](const std::string& condition) {
      return absl::StrCat("complete -c ", program, " -n ", Quoted(condition));
    };
    const std::string here = absl::StrCat(is_verb, " ", verb.name);
    const std::string seen = "__fish_seen_subcommand_from ";
    const std::string begin = when(here);
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
    const std::string list = absl::StrJoin(words, " ");
    if (!words.empty()) {
      absl::StrAppend(&text, when(absl::StrCat(here, "; and not ", seen, list)), " -a ",
                      Quoted(list), "\n");
    }
    if (TakesFile(verb)) {
      absl::StrAppend(&text, words.empty() ? begin : when(absl::StrCat(here, "; and ", seen, list)),
                      " -F\n");
    }
  }
  return text;
}

}  // namespace sangam
