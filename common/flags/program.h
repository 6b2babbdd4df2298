#ifndef SANGAM_COMMON_FLAGS_PROGRAM_H_
#define SANGAM_COMMON_FLAGS_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/flags/flags.h"

// What a program tells of itself. Pure.
namespace sangam {

struct ProgramText {
  struct Example {
    std::string command;
    std::string effect;  // a few words
  };

  std::string name;     // "sangam-server"
  std::string summary;  // one sentence
  std::vector<Example> examples;
  // Paragraphs; they are wrapped.
  std::vector<std::string> details;
};

// Summary, usage, examples, flags and details, in lines of at most 80 columns.
std::string HelpPage(const ProgramText& program, const FlagSet& flags);

// "sangam-server 0.1.0 (protocol 2, commit 3f2c9e1, CUDA no)"; the commit where the build was
// stamped with it (build_label.h). Other programs may add their part.
std::string VersionLine(absl::string_view program, absl::string_view more = "");

}  // namespace sangam

#endif  // SANGAM_COMMON_FLAGS_PROGRAM_H_
