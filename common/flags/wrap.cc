#include "common/flags/wrap.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sangam {

size_t TextWidth(absl::string_view text) {
  // Continuation bytes do not count.
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::vector<std::string> WrapWords(absl::string_view text, size_t columns) {
  std::vector<std::string> lines;
  size_t width = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const size_t more = TextWidth(word);
    if (lines.empty() || width + 1 + more > columns) {
      lines.emplace_back(word);
      width = more;
    } else {
      absl::StrAppend(&lines.back(), " ", word);
      width += 1 + more;
    }
  }
  return lines;
}

std::string HangingText(absl::string_view key, absl::string_view text, size_t indent,
                        size_t columns) {
  std::string result;
  const size_t room = columns > indent ? columns - indent : 1;
  for (const std::string& line : WrapWords(text, room)) {
    std::string begin = result.empty() ? std::string(key) : "";
    const size_t width = TextWidth(begin);
    begin.append(indent > width ? indent - width : 1, ' ');
    absl::StrAppend(&result, begin, line, "\n");
  }
  return result;
}

}  // namespace sangam
