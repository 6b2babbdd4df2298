#include "client/commands/manual.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/command.h"
#include "common/base/exit_code.h"
#include "common/flags/flags.h"
#include "common/flags/man_page.h"

namespace sangam {

std::string Manual(const std::vector<std::unique_ptr<Command>>& commands,
                   const Environment& environment) {
  std::string text = ManHeader("sangam", 1, "train neural networks with parameter servers");
  absl::StrAppend(&text,
                  ".SH SYNOPSIS\n\\fBsangam\\fR \\fIVERB\\fR [\\fIARGUMENT\\fR] "
                  "[\\fIFLAG\\fR]...\n.SH VERBS\n");
  for (const std::unique_ptr<Command>& command : commands) {
    const CommandText words = command->text();
    FlagSet flags;
    command->AddFlags(environment, &flags);
    const std::string usage =
        words.arguments.empty() ? words.name : absl::StrCat(words.name, " ", words.arguments);
    absl::StrAppend(&text, ".SS \"", ManEscape(usage), "\"\n", ManParagraph(words.summary),
                    ManVerbatim(words.details), ManFlags(flags), ManParagraph("Examples:"),
                    ManVerbatim(absl::StrJoin(words.examples, "\n")));
  }
  absl::StrAppend(&text, ".SH EXIT STATUS\n", ManParagraph(ClientExitCodes()),
                  ".SH SEE ALSO\n\\fBsangam\\-server\\fR(8), \\fBsangam\\-worker\\fR(8)\n");
  return text;
}

}  // namespace sangam
