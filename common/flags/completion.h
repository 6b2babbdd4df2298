#ifndef SANGAM_COMMON_FLAGS_COMPLETION_H_
#define SANGAM_COMMON_FLAGS_COMPLETION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/flags/flags.h"

// Scripts that teach a shell to complete a program's command line. Pure.
namespace sangam {

struct CompletedVerb {
  std::string name;
  std::string summary;
  // As help shows them: "FILE", "list|verify [JOB]".
  std::string arguments;
  // Must outlive the call.
  const FlagSet* flags = nullptr;
};

std::string BashCompletion(absl::string_view program, const std::vector<CompletedVerb>& verbs);
std::string ZshCompletion(absl::string_view program, const std::vector<CompletedVerb>& verbs);
std::string FishCompletion(absl::string_view program, const std::vector<CompletedVerb>& verbs);

}  // namespace sangam

#endif  // SANGAM_COMMON_FLAGS_COMPLETION_H_
