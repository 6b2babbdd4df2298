#ifndef SANGAM_SERVER_CORE_SHORTENED_H_
#define SANGAM_SERVER_CORE_SHORTENED_H_

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sangam {

// `text`, cut to at most `max_bytes` bytes plus an ellipsis, never inside a UTF-8 character. For
// what peers and users say, which the coordinator keeps.
inline std::string Shortened(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  // Bytes 10xxxxxx continue a character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), "...");
}

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_SHORTENED_H_
