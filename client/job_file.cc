#include "client/job_file.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/field_override.h"
#include "client/files.h"
#include "common/base/status_macros.h"
#include "common/base/suggestion.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kMaxJobFileBytes = size_t{1} << 20;
// Messages within messages; as many as protobuf takes on the wire.
constexpr int kMaxNesting = 32;
// JSON has a list around each element of a repeated field.
constexpr size_t kMaxJsonNesting = 2 * kMaxNesting;

// "; did you mean ...? (its fields: ...)" for protobuf's complaint
//   Message type "sangam.v1.JobSpec" has no field named "epoch".
// "" for any other.
std::string FieldHint(absl::string_view message) {
  constexpr absl::string_view kBefore = "Message type \"";
  constexpr absl::string_view kBetween = "\" has no field named \"";
  if (!absl::StartsWith(message, kBefore)) return "";
  const size_t between = message.find(kBetween);
  if (between == absl::string_view::npos) return "";
  const absl::string_view type_name = message.substr(kBefore.size(), between - kBefore.size());
  absl::string_view field = message.substr(between + kBetween.size());
  field = field.substr(0, field.find('"'));
  const google::protobuf::Descriptor* type =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
          std::string(type_name));
  if (type == nullptr) return "";
  const std::vector<std::string> names = FieldNames(*type);
  if (names.empty()) return "; it has no fields";
  return absl::StrCat(DidYouMean(field, names), " (its fields: ", absl::StrJoin(names, ", "), ")");
}

// Adds the values of all enumerations that fields called `name` within `type` have.
void AddEnumValues(const Descriptor& type, absl::string_view name, std::set<const void*>* seen,
                   std::vector<std::string>* values) {
  if (!seen->insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.message_type() != nullptr) AddEnumValues(*field.message_type(), name, seen, values);
    if (field.enum_type() == nullptr || field.name() != name) continue;
    if (!seen->insert(field.enum_type()).second) continue;
    // The first one stands for a field that is not set.
    for (int v = 1; v < field.enum_type()->value_count(); ++v) {
      values->push_back(field.enum_type()->value(v)->name());
    }
  }
}

// "; did you mean ...? (its values: ...)" for protobuf's complaint
//   Unknown enumeration value of "BEST" for field "strategy".
// "" for any other.
std::string ValueHint(absl::string_view message) {
  if (!absl::StartsWith(message, "Unknown enumeration value of \"")) return "";
  const std::vector<std::string> parts = absl::StrSplit(message, '"');
  if (parts.size() < 4) return "";
  std::set<const void*> seen;
  std::vector<std::string> values;
  AddEnumValues(*v1::JobSpec::descriptor(), parts[3], &seen, &values);
  if (values.empty()) return "";
  return absl::StrCat(DidYouMean(parts[1], values), " (its values: ", absl::StrJoin(values, ", "),
                      ")");
}

// Collects "name:line:column: message" lines.
class TextErrors : public google::protobuf::io::ErrorCollector {
 public:
  explicit TextErrors(absl::string_view name) : name_(name) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    // The end of the file has no line of its own.
    const std::string place = line < 0 ? "" : absl::StrCat(line + 1, ":", column + 1, ":");
    const absl::string_view sentence = absl::StripSuffix(message, ".");
    lines_.push_back(
        absl::StrCat(name_, ":", place, " ", sentence, FieldHint(message), ValueHint(message)));
  }
  std::string text() const { return absl::StrJoin(lines_, "\n"); }

 private:
  const std::string name_;
  std::vector<std::string> lines_;
};

absl::StatusOr<v1::JobSpec> ParseText(absl::string_view text, absl::string_view name) {
  TextErrors errors(name);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kMaxNesting);
  v1::JobSpec spec;
  if (!parser.ParseFromString(std::string(text), &spec)) {
    return absl::InvalidArgumentError(errors.text());
  }
  return spec;
}

// Reads characters and keeps how far it got.
class CountedText {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountedText(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountedText& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  friend bool operator==(const CountedText& a, const CountedText& b) { return a.at_ == b.at_; }
  friend bool operator!=(const CountedText& a, const CountedText& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// Looks for what protobuf's JSON parser does not tell well: the place of the first syntax error, of
// a field that there is not (with the closest one), and of one that stands twice.
class JsonSyntax : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonSyntax(absl::string_view text)
      : text_(text), next_(v1::JobSpec::descriptor()), furthest_(text.data()) {}

  bool Check() {
    return nlohmann::json::sax_parse(CountedText(text_.data(), &furthest_),
                                     CountedText(text_.data() + text_.size(), &furthest_), this);
  }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override {
    const bool element = !open_.empty() && open_.back().array;
    return Open({element ? open_.back().type : next_, false, {}});
  }
  bool key(string_t& name) override {
    Object& object = open_.back();
    next_ = nullptr;
    // Not a message: protobuf's parser says so.
    if (object.type == nullptr) return true;
    const size_t in_quotes = name.size() + 1;
    const FieldDescriptor* field = FindField(*object.type, name);
    if (field == nullptr) {
      const std::vector<std::string> names = FieldNames(*object.type);
      return Fault(absl::StrCat("found the field \"", absl::CEscape(name), "\", which ",
                                object.type->name(), " has not", DidYouMean(name, names),
                                " (its fields: ", absl::StrJoin(names, ", "), ")"),
                   in_quotes);
    }
    if (!object.seen.insert(field).second) {
      return Fault(absl::StrCat("found the field \"", absl::CEscape(name),
                                "\" a second time, expected it once"),
                   in_quotes);
    }
    next_ = field->message_type();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    // An array's objects have the type of its field.
    return Open({std::exchange(next_, nullptr), true, {}});
  }
  bool end_array() override { return end_object(); }
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& error) override {
    position_ = position;
    message_ = error.what();
    // What the parser found and expected, without its own preamble:
    //   [json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ...
    const size_t place = message_.find(": ");
    if (place != std::string::npos) message_.erase(0, place + 2);
    return false;
  }
  // Bytes read up to and including the faulty one.
  size_t position() const { return position_; }
  const std::string& message() const { return message_; }

 private:
  struct Object {
    const Descriptor* type;
    bool array;
    std::set<const FieldDescriptor*> seen;
  };

  bool Open(Object object) {
    open_.push_back(std::move(object));
    if (open_.size() <= kMaxJsonNesting) return true;
    return Fault(
        absl::StrCat("found more than ", kMaxJsonNesting, " objects and lists within one another"));
  }
  static const FieldDescriptor* FindField(const Descriptor& type, const std::string& name) {
    for (int f = 0; f < type.field_count(); ++f) {
      const FieldDescriptor* field = type.field(f);
      if (field->name() == name || field->json_name() == name) return field;
    }
    return nullptr;
  }
  // `back`: bytes between the place of the fault and what was read last.
  bool Fault(std::string message, size_t back = 0) {
    position_ = static_cast<size_t>(furthest_ - text_.data());
    position_ -= std::min(position_, back);
    message_ = std::move(message);
    return false;
  }

  const absl::string_view text_;
  std::vector<Object> open_;  // objects and arrays, the innermost last
  const Descriptor* next_;    // of the value that comes next; nullptr: no message
  const char* furthest_;
  size_t position_ = 0;
  std::string message_;
};

// "line:column" of the byte before `position`, counted from 1.
std::string PlaceOf(absl::string_view text, size_t position) {
  const absl::string_view before = text.substr(0, position == 0 ? 0 : position - 1);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_start = before.rfind('\n');
  const size_t column =
      line_start == absl::string_view::npos ? before.size() : before.size() - line_start - 1;
  return absl::StrCat(line, ":", column + 1);
}

absl::StatusOr<v1::JobSpec> ParseJson(absl::string_view text, absl::string_view name) {
  JsonSyntax syntax(text);
  if (!syntax.Check()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", PlaceOf(text, syntax.position()), ": ", syntax.message()));
  }
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = false;
  v1::JobSpec spec;
  const auto status =
      google::protobuf::util::JsonStringToMessage(std::string(text), &spec, options);
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message().ToString()));
  }
  return spec;
}

bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
    }
    // Overlong forms, surrogates, and what lies beyond Unicode.
    const auto second = static_cast<unsigned char>(length > 1 ? text[i + 1] : 0);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
      return false;
    }
    i += length;
  }
  return true;
}

absl::Status CheckStringField(const google::protobuf::Message& message,
                              const google::protobuf::FieldDescriptor* field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
  for (int i = 0; i < size; ++i) {
    std::string scratch;
    const std::string& value =
        field->is_repeated() ? reflection.GetRepeatedStringReference(message, field, i, &scratch)
                             : reflection.GetStringReference(message, field, &scratch);
    if (!IsUtf8(value)) {
      return absl::InvalidArgumentError(absl::StrCat("field '", field->name(), "' of ",
                                                     message.GetDescriptor()->name(),
                                                     " is not UTF-8 text"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckUtf8(const google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      RETURN_IF_ERROR(CheckStringField(message, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < size; ++i) {
        RETURN_IF_ERROR(CheckUtf8(field->is_repeated()
                                      ? reflection.GetRepeatedMessage(message, field, i)
                                      : reflection.GetMessage(message, field)));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::JobSpec> ParseJobFile(absl::string_view text, absl::string_view name) {
  const absl::string_view trimmed = absl::StripLeadingAsciiWhitespace(text);
  if (trimmed.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": the file is empty, expected a job's specification"));
  }
  const bool json = absl::EndsWith(name, ".json") || trimmed.front() == '{';
  ASSIGN_OR_RETURN(v1::JobSpec spec, json ? ParseJson(text, name) : ParseText(text, name));
  RETURN_IF_ERROR(CheckUtf8(spec), "%s", name);
  return spec;
}

absl::StatusOr<v1::JobSpec> ReadJobFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxJobFileBytes));
  return ParseJobFile(text, path);
}

}  // namespace sangam
