#ifndef SANGAM_COMMON_BASE_SUGGESTION_H_
#define SANGAM_COMMON_BASE_SUGGESTION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sangam {

// The candidate that a user who wrote `word` most likely meant: the one at the smallest edit
// distance (insertion, deletion, replacement, swap of neighbours), the first of several. "" when
// none is near: more than a third of the word would have to change.
std::string ClosestMatch(absl::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'x'?" for the closest match, or "".
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_SUGGESTION_H_
