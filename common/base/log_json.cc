#include "common/base/log_json.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sangam {
namespace {

// More than any line of ours has.
constexpr size_t kMaxFields = 64;

constexpr size_t kExactDigits = 15;  // that a double holds

struct Member {
  std::string key;
  std::string value;
  bool number = false;
};

// The length of the UTF-8 character at the beginning of `text`; 0: it is none.
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies above the last code point.
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) >= 0xA0) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) >= 0x90) return 0;
  return length;
}

// In quotes. A byte that is no UTF-8 becomes U+FFFD.
std::string Quoted(absl::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const auto c = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      quoted += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += text[0];
    } else if (c < 0x20 || c == 0x7F) {
      quoted += "\\u00";
      quoted += kHex[c >> 4];
      quoted += kHex[c & 15];
    } else {
      quoted.append(text.data(), length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return quoted + "\"";
}

// Whether JSON reads it as a number, exactly.
bool IsNumber(absl::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  const size_t point = text.find('.');
  const absl::string_view whole = text.substr(0, point);
  const auto all_digits = [](absl::string_view digits) {
    return !digits.empty() && std::all_of(digits.begin(), digits.end(),
                                          [](unsigned char c) { return absl::ascii_isdigit(c); });
  };
  if (text.size() > kExactDigits || !all_digits(whole)) return false;
  if (whole.size() > 1 && whole[0] == '0') return false;
  return point == absl::string_view::npos || all_digits(text.substr(point + 1));
}

// Takes the value at the beginning of `rest`: up to a blank, or a quoted one with its end.
absl::string_view TakeValue(absl::string_view* rest) {
  size_t end = 0;
  if (!rest->empty() && rest->front() == '"') {
    for (end = 1; end < rest->size() && (*rest)[end] != '"'; ++end) {
      if ((*rest)[end] == '\\') ++end;
    }
    end = std::min(end + 1, rest->size());
  } else {
    end = std::min(rest->find(' '), rest->size());
  }
  const absl::string_view value = rest->substr(0, end);
  rest->remove_prefix(end);
  return value;
}

std::string Unquoted(absl::string_view value) {
  if (value.empty() || value.front() != '"') return std::string(value);
  value.remove_prefix(1);
  if (!value.empty() && value.back() == '"') value.remove_suffix(1);
  std::string text;
  return absl::CUnescape(value, &text) ? text : std::string(value);
}

void AddMember(std::vector<Member>* members, std::string key, std::string value, bool number) {
  const auto taken = [members](const std::string& wanted) {
    return std::any_of(members->begin(), members->end(),
                       [&](const Member& member) { return member.key == wanted; });
  };
  while (taken(key)) key += '_';
  members->push_back({std::move(key), std::move(value), number});
}

void AddFields(absl::string_view fields, std::vector<Member>* members) {
  std::string words;
  while (!fields.empty()) {
    if (fields.front() == ' ') {
      fields.remove_prefix(1);
      continue;
    }
    const size_t key_end = fields.find_first_of("= ");
    const bool is_field =
        key_end != absl::string_view::npos && fields[key_end] == '=' && key_end > 0;
    if (!is_field || members->size() >= kMaxFields) {
      absl::StrAppend(&words, words.empty() ? "" : " ", TakeValue(&fields));
      continue;
    }
    std::string key(fields.substr(0, key_end));
    fields.remove_prefix(key_end + 1);
    const absl::string_view value = TakeValue(&fields);
    AddMember(members, std::move(key), Unquoted(value), IsNumber(value));
  }
  if (!words.empty()) AddMember(members, "detail", std::move(words), false);
}

std::string Shortened(const std::string& value, size_t max) {
  if (value.size() <= max) return value;
  return absl::StrCat(value.substr(0, max), "...");
}

}  // namespace

std::string LogLineToJson(const LogLine& line, size_t max_bytes) {
  std::vector<Member> members;
  members.push_back(
      {"ts", absl::FormatTime("%Y-%m-%dT%H:%M:%E9SZ", line.time, absl::UTCTimeZone()), false});
  members.push_back({"level", std::string(line.level), false});
  members.push_back({"msg", std::string(line.event), false});
  if (!line.component.empty()) {
    members.push_back({"component", std::string(line.component), false});
  }
  AddFields(line.fields.substr(0, 2 * max_bytes), &members);
  for (size_t longest = max_bytes; longest > 0; longest /= 2) {
    std::string json = "{";
    for (const Member& member : members) {
      absl::StrAppend(&json, json.size() > 1 ? "," : "", Quoted(Shortened(member.key, longest)),
                      ":", member.number ? member.value : Quoted(Shortened(member.value, longest)));
    }
    json += '}';
    if (json.size() <= max_bytes) return json;
  }
  return "{}";
}

}  // namespace sangam
