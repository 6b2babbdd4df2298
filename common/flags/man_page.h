#ifndef SANGAM_COMMON_FLAGS_MAN_PAGE_H_
#define SANGAM_COMMON_FLAGS_MAN_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"

// Manual pages, as man(7) macros. Pure: the same tables give the same bytes.
namespace sangam {

// Text that groff shows as it is.
std::string ManEscape(absl::string_view text);

// ".TH" and the section NAME.
std::string ManHeader(absl::string_view name, int section, absl::string_view summary);

// One ".TP" entry a flag.
std::string ManFlags(const FlagSet& flags);

// A paragraph.
std::string ManParagraph(absl::string_view text);

// Lines as they are, indented, in a fixed font.
std::string ManVerbatim(absl::string_view lines);

// The page of a daemon, in section 8.
std::string ManPage(const ProgramText& program, const FlagSet& flags);

}  // namespace sangam

#endif  // SANGAM_COMMON_FLAGS_MAN_PAGE_H_
