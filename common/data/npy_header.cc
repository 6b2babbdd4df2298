#include "common/data/npy_header.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/data/input_file.h"
#include "common/data/text_lines.h"

namespace sangam {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
constexpr uint32_t kMaxHeaderBytes = 64 * 1024;
constexpr size_t kMaxDimensions = 32;  // NumPy's own limit
constexpr absl::string_view kKinds = "f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 or b1";

// Parses the dictionary of a header, a Python literal such as
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  // `start`: offset of `text` in the file.
  HeaderParser(const std::string& name, absl::string_view text, uint64_t start)
      : name_(name), text_(text), start_(start) {}

  absl::StatusOr<NpyHeader> Parse() {
    NpyHeader header;
    RETURN_IF_ERROR(Expect('{'));
    bool descr = false;
    bool order = false;
    bool shape = false;
    while (!Take('}')) {
      ASSIGN_OR_RETURN(const std::string key, String("a key"));
      RETURN_IF_ERROR(Expect(':'));
      bool* const seen = key == "descr"           ? &descr
                         : key == "fortran_order" ? &order
                         : key == "shape"         ? &shape
                                                  : nullptr;
      if (seen == nullptr || *seen) {
        return Fault(absl::StrCat("key ", Shown(key)), "descr, fortran_order and shape, each once");
      }
      *seen = true;
      RETURN_IF_ERROR(key == "descr"           ? Descr(&header)
                      : key == "fortran_order" ? Order(&header)
                                               : Shape(&header));
      if (Take(',')) continue;
      RETURN_IF_ERROR(Expect('}'));
      break;
    }
    if (!descr || !order || !shape) {
      return Fault("the end of the dictionary", "descr, fortran_order and shape, each once");
    }
    SkipSpace();
    if (at_ != text_.size()) return Fault(Shown(text_.substr(at_)), "the end of the header");
    return header;
  }

 private:
  absl::Status Fault(absl::string_view found, absl::string_view expected) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": header at offset ", start_ + at_,
                                                   ": found ", found, ", expected ", expected));
  }
  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  absl::Status Expect(char c) {
    if (Take(c)) return absl::OkStatus();
    return Fault(Shown(text_.substr(at_)), absl::StrCat("'", absl::string_view(&c, 1), "'"));
  }

  absl::StatusOr<std::string> String(absl::string_view what) {
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : text_.npos;
    if (end == text_.npos) {
      return Fault(Shown(text_.substr(at_)), absl::StrCat(what, " in quotes"));
    }
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  absl::Status Descr(NpyHeader* header) {
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '[') {
      return Fault("a structured dtype", absl::StrCat("one number type: ", kKinds));
    }
    const size_t at = at_;
    ASSIGN_OR_RETURN(const std::string descr, String("a dtype"));
    const bool marked = !descr.empty() && std::strchr("<>|=", descr[0]) != nullptr;
    const absl::string_view type = absl::string_view(descr).substr(marked ? 1 : 0);
    if (type.size() == 2 && IsNumber(type[0], type[1])) {
      header->kind = type[0];
      header->item_bytes = static_cast<uint32_t>(type[1] - '0');
      header->big_endian = descr[0] == '>';
      return absl::OkStatus();
    }
    at_ = at;
    const bool object = !type.empty() && type[0] == 'O';
    return Fault(absl::StrCat("dtype ", Shown(descr), object ? " (objects)" : ""), kKinds);
  }
  static bool IsNumber(char kind, char bytes) {
    const bool whole = bytes == '1' || bytes == '2' || bytes == '4' || bytes == '8';
    return (kind == 'b' && bytes == '1') || (kind == 'f' && whole && bytes != '1') ||
           ((kind == 'i' || kind == 'u') && whole);
  }

  absl::Status Order(NpyHeader* header) {
    SkipSpace();
    for (const bool value : {false, true}) {
      const absl::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      header->fortran_order = value;
      return absl::OkStatus();
    }
    return Fault(Shown(text_.substr(at_)), "True or False");
  }

  absl::Status Shape(NpyHeader* header) {
    RETURN_IF_ERROR(Expect('('));
    while (!Take(')')) {
      SkipSpace();
      size_t end = at_;
      while (end < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[end]))) {
        ++end;
      }
      uint64_t size = 0;
      if (end == at_ || !absl::SimpleAtoi(text_.substr(at_, end - at_), &size) || size == 0) {
        return Fault(Shown(text_.substr(at_)), "a size, a whole number above 0");
      }
      if (header->shape.size() == kMaxDimensions ||
          __builtin_mul_overflow(header->items, size, &header->items)) {
        return Fault("more dimensions or items than any array has",
                     absl::StrCat("at most ", kMaxDimensions, " dimensions"));
      }
      header->shape.push_back(size);
      at_ = end;
      if (Take(',')) continue;
      RETURN_IF_ERROR(Expect(')'));
      break;
    }
    if (header->shape.empty()) return Fault("no dimension", "at least one: the samples");
    return absl::OkStatus();
  }

  const std::string& name_;
  const absl::string_view text_;
  const uint64_t start_;
  size_t at_ = 0;
};

absl::Status CheckItems(const InputFile& file, const NpyHeader& header) {
  const std::string claim =
      absl::StrCat(file.name(), ": shape (", absl::StrJoin(header.shape, ", "), ") of ",
                   header.item_bytes, "-byte items");
  const uint64_t limit = file.max_content_bytes();
  const uint64_t left = limit < file.offset() ? 0 : limit - file.offset();
  if (header.items > left / header.item_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(claim, ": found at most ", left,
                                                   " bytes behind the header of ", file.offset(),
                                                   ", expected ", header.items, " items"));
  }
  if (!file.gzipped() && header.items * header.item_bytes != left) {
    return absl::InvalidArgumentError(
        absl::StrCat(claim, ": found ", left, " bytes behind the header of ", file.offset(),
                     ", expected ", header.items * header.item_bytes));
  }
  return absl::OkStatus();
}

double HalfToDouble(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  double value = 0;
  if (exponent == 0x1f) {
    value = fraction == 0 ? HUGE_VAL : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename To>
To BitsAs(uint64_t bits) {
  To value;
  static_assert(sizeof(value) <= sizeof(bits), "");
  std::memcpy(&value, &bits, sizeof(value));  // little-endian machines only, as everywhere here
  return value;
}

}  // namespace

absl::StatusOr<NpyHeader> ReadNpyHeader(InputFile* file) {
  std::array<uint8_t, 8> start = {};
  RETURN_IF_ERROR(file->Read(start.size(), start.data()));
  if (std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(file->name(), ": magic at offset 0: found ",
                     Shown({reinterpret_cast<const char*>(start.data()), kMagic.size()}),
                     ", expected ", Shown(kMagic), " (a NumPy array)"));
  }
  if (start[6] < 1 || start[6] > 3 || start[7] != 0) {
    return absl::InvalidArgumentError(absl::StrCat(file->name(), ": version at offset 6: found ",
                                                   start[6], ".", start[7],
                                                   ", expected 1.0, 2.0 or 3.0"));
  }
  std::array<uint8_t, 4> length = {};
  RETURN_IF_ERROR(file->Read(start[6] == 1 ? 2 : 4, length.data()));
  const uint32_t bytes =
      length[0] | uint32_t{length[1]} << 8 | uint32_t{length[2]} << 16 | uint32_t{length[3]} << 24;
  if (bytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(file->name(),
                                                   ": header length at offset 8: found ", bytes,
                                                   ", expected at most ", kMaxHeaderBytes));
  }
  const uint64_t offset = file->offset();
  std::string text(bytes, '\0');
  RETURN_IF_ERROR(file->Read(bytes, reinterpret_cast<uint8_t*>(text.data())));
  ASSIGN_OR_RETURN(NpyHeader header, HeaderParser(file->name(), text, offset).Parse());
  RETURN_IF_ERROR(CheckItems(*file, header));
  return header;
}

double NpyItem(const NpyHeader& header, const uint8_t* item) {
  uint64_t bits = 0;
  for (uint32_t b = 0; b < header.item_bytes; ++b) {
    const uint32_t place = header.big_endian ? header.item_bytes - 1 - b : b;
    bits |= uint64_t{item[b]} << 8 * place;
  }
  switch (header.kind) {
    case 'f':
      if (header.item_bytes == 8) return BitsAs<double>(bits);
      return header.item_bytes == 4 ? BitsAs<float>(bits)
                                    : HalfToDouble(static_cast<uint16_t>(bits));
    case 'i': {
      // The sign, in the highest bit.
      const uint32_t shift = 64 - 8 * header.item_bytes;
      return static_cast<double>(static_cast<int64_t>(bits << shift) >> shift);
    }
    case 'b':
      return bits != 0 ? 1 : 0;
    default:
      return static_cast<double>(bits);
  }
}

}  // namespace sangam
