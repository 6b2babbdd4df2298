#include "common/data/text_lines.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/data/input_file.h"
#include "common/data/read_options.h"

namespace sangam {
namespace {

constexpr size_t kBufferBytes = size_t{256} * 1024;
constexpr size_t kMaxShown = 40;

}  // namespace

absl::StatusOr<TextLines> TextLines::Open(const NamedFile& file, const ReadOptions* options) {
  ASSIGN_OR_RETURN(std::unique_ptr<InputFile> input, InputFile::Open(file.path, file.name));
  return TextLines(std::move(input), options);
}

absl::StatusOr<bool> TextLines::Next(std::string* line) {
  line->clear();
  buffer_.resize(kBufferBytes);
  bool any = false;
  for (;;) {
    if (begin_ == end_) {
      RETURN_IF_ERROR(options_->CheckCancelled(name()));
      ASSIGN_OR_RETURN(end_,
                       file_->ReadSome(buffer_.size(), reinterpret_cast<uint8_t*>(buffer_.data())));
      begin_ = 0;
      if (end_ == 0) {
        if (any) ++line_;
        return any;
      }
    }
    any = true;
    const char* const first = buffer_.data() + begin_;
    const auto* newline = static_cast<const char*>(std::memchr(first, '\n', end_ - begin_));
    const size_t count = newline == nullptr ? end_ - begin_ : static_cast<size_t>(newline - first);
    if (line->size() + count > kMaxLineBytes) {
      return absl::InvalidArgumentError(absl::StrCat(name(), ":", line_ + 1,
                                                     ": found a line of more than ", kMaxLineBytes,
                                                     " bytes, expected text in lines"));
    }
    line->append(first, count);
    begin_ += count;
    if (newline == nullptr) continue;
    ++begin_;
    ++line_;
    if (!line->empty() && line->back() == '\r') line->pop_back();
    return true;
  }
}

std::string TextLines::place() const { return absl::StrCat(name(), ":", line_); }

bool ParseNumber(absl::string_view text, double* number) {
  text = absl::StripAsciiWhitespace(text);
  // from_chars would take it for the beginning of a hexadecimal number.
  if (text.find_first_of("xX") != absl::string_view::npos) return false;
  if (absl::ConsumePrefix(&text, "+") && (text.empty() || text.front() == '-')) return false;
  const char* const end = text.data() + text.size();
  const absl::from_chars_result result = absl::from_chars(text.data(), end, *number);
  // Out of range: an infinity, or a number next to 0, which is as good as it.
  const bool parsed = result.ec == std::errc() || result.ec == std::errc::result_out_of_range;
  return parsed && !text.empty() && result.ptr == end && std::isfinite(*number);
}

std::string Shown(absl::string_view text) {
  return absl::StrCat("\"", absl::CEscape(text.substr(0, kMaxShown)),
                      text.size() > kMaxShown ? "...\"" : "\"");
}

}  // namespace sangam
