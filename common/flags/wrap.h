#ifndef SANGAM_COMMON_FLAGS_WRAP_H_
#define SANGAM_COMMON_FLAGS_WRAP_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

// Long texts in lines of a terminal. Pure. Widths are counted in characters of UTF-8 text.
namespace sangam {

// Characters of UTF-8 text.
size_t TextWidth(absl::string_view text);

// The words of `text` in lines of at most `columns`; a longer word is a line of its own. None for a
// text without words.
std::vector<std::string> WrapWords(absl::string_view text, size_t columns);

// "key  text": the text begins in column `indent`, also in the lines that follow, and ends at
// `columns`. Every line ends with a line break; "" for a text without words.
std::string HangingText(absl::string_view key, absl::string_view text, size_t indent,
                        size_t columns);

}  // namespace sangam

#endif  // SANGAM_COMMON_FLAGS_WRAP_H_
