#include "common/flags/program.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/version.h"
#include "common/flags/build_label.h"
#include "common/flags/flags.h"
#include "common/flags/wrap.h"

namespace sangam {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kExampleIndent = 6;

std::string Paragraph(absl::string_view text) {
  return absl::StrCat(absl::StrJoin(WrapWords(text, kColumns), "\n"), "\n");
}

}  // namespace

std::string HelpPage(const ProgramText& program, const FlagSet& flags) {
  std::string text = Paragraph(program.summary);
  absl::StrAppend(&text, "\nUsage: ", program.name, " [--FLAG=VALUE]...\n\nExamples\n");
  for (const ProgramText::Example& example : program.examples) {
    absl::StrAppend(&text, "  ", example.command, "\n",
                    HangingText("", example.effect, kExampleIndent, kColumns));
  }
  absl::StrAppend(&text, "\nFlags\n", flags.Help());
  for (const std::string& paragraph : program.details) {
    absl::StrAppend(&text, "\n", Paragraph(paragraph));
  }
  return text;
}

std::string VersionLine(absl::string_view program, absl::string_view more) {
  const absl::string_view label = kBuildLabel;
  // Of a build that was not stamped.
  const bool stamped = !label.empty() && label != "redacted";
  return absl::StrCat(program, " ", kVersion, " (protocol ", kProtocolVersion,
                      stamped ? ", commit " : "", stamped ? label : "", more.empty() ? "" : ", ",
                      more, ")\n");
}

}  // namespace sangam
