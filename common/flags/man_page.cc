#include "common/flags/man_page.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/version.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"

namespace sangam {

std::string ManEscape(absl::string_view text) {
  // A plain '-' may become a hyphen, and plain quotes curly ones: neither can be copied.
  std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"},
                                                   {"-", "\\-"},
                                                   {"'", "\\(aq"},
                                                   {"`", "\\(ga"},
                                                   {"^", "\\(ha"},
                                                   {"~", "\\(ti"}});
  // At the begin of a line a dot begins a request.
  if (absl::StartsWith(escaped, ".")) escaped.insert(0, "\\&");
  return absl::StrReplaceAll(escaped, {{"\n.", "\n\\&."}});
}

std::string ManHeader(absl::string_view name, int section, absl::string_view summary) {
  return absl::StrCat(".TH ", absl::AsciiStrToUpper(name), " ", section, " \"\" \"Sangam ",
                      kVersion, "\" \"Sangam\"\n.SH NAME\n", ManEscape(name), " \\- ",
                      ManEscape(absl::StripSuffix(summary, ".")), "\n");
}

std::string ManFlags(const FlagSet& flags) {
  std::string text;
  for (const FlagSet::Flag& flag : flags.flags()) {
    if (flag.text.hidden) continue;
    absl::StrAppend(&text, ".TP\n\\fB", ManEscape(absl::StrCat("--", flag.text.name)), "\\fR");
    if (!flag.is_switch) absl::StrAppend(&text, "=\\fI", ManEscape(flag.text.value), "\\fR");
    if (flag.text.letter != 0) {
      absl::StrAppend(&text, ", \\fB\\-", std::string(1, flag.text.letter), "\\fR");
    }
    absl::StrAppend(&text, "\n", ManEscape(FlagSet::WholeHelp(flag)), "\n");
  }
  return text;
}

std::string ManParagraph(absl::string_view text) {
  return absl::StrCat(".PP\n", ManEscape(text), "\n");
}

std::string ManVerbatim(absl::string_view lines) {
  return absl::StrCat(".PP\n.RS 4\n.nf\n", ManEscape(absl::StripTrailingAsciiWhitespace(lines)),
                      "\n.fi\n.RE\n");
}

std::string ManPage(const ProgramText& program, const FlagSet& flags) {
  std::string text = ManHeader(program.name, 8, program.summary);
  absl::StrAppend(&text, ".SH SYNOPSIS\n\\fB", ManEscape(program.name), "\\fR [\\fIFLAG\\fR]...\n");
  absl::StrAppend(&text, ".SH DESCRIPTION\n");
  for (const std::string& paragraph : program.details) {
    absl::StrAppend(&text, ManParagraph(paragraph));
  }
  absl::StrAppend(&text, ".SH OPTIONS\n", ManFlags(flags));
  absl::StrAppend(
      &text, ".SH ENVIRONMENT\n",
      ManParagraph(
          "SANGAM_<NAME>, in capitals, sets the flag of that name when the command line "
          "does not: SANGAM_LOG_LEVEL=debug. Variables that begin with SANGAM_ and name no "
          "flag are reported; those that Kubernetes makes of services are not."),
      ManParagraph("NOTIFY_SOCKET and WATCHDOG_USEC come from systemd; see sd_notify(3)."));
  absl::StrAppend(
      &text, ".SH FILES\n",
      ManParagraph("The file of --config has a line 'name = value' for each flag that it "
                   "sets. What follows a '#' is a comment. A fault is reported with its "
                   "line, and the daemon does not start."));
  absl::StrAppend(&text, ".SH EXAMPLES\n");
  for (const ProgramText::Example& example : program.examples) {
    absl::StrAppend(&text, ManParagraph(example.effect), ManVerbatim(example.command));
  }
  absl::StrAppend(&text,
                  ".SH SEE ALSO\n\\fBsangam\\fR(1), \\fBsangam\\-server\\fR(8), "
                  "\\fBsangam\\-worker\\fR(8)\n");
  return text;
}

}  // namespace sangam
