#include "client/field_override.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/base/suggestion.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

namespace sangam {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Messages within messages of one value; as many as protobuf takes on the wire.
constexpr int kMaxNesting = 100;

// One name of a path, with its index if it has one.
struct PathElement {
  std::string name;
  std::optional<int> index;
  // The path up to and including this element, for messages.
  std::string path;
};

absl::Status BadPath(absl::string_view path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("path '", absl::CEscape(path), "': ", why));
}

absl::StatusOr<PathElement> ParseElement(absl::string_view text, absl::string_view path) {
  PathElement element;
  const size_t bracket = text.find('[');
  element.name = std::string(text.substr(0, bracket));
  if (element.name.empty()) {
    return BadPath(path, "a name is missing; expected names separated by dots");
  }
  if (bracket == absl::string_view::npos) return element;
  const absl::string_view rest = text.substr(bracket);
  int index = 0;
  if (rest.size() < 3 || rest.back() != ']' ||
      !std::all_of(rest.begin() + 1, rest.end() - 1, [](char c) { return c >= '0' && c <= '9'; }) ||
      !absl::SimpleAtoi(rest.substr(1, rest.size() - 2), &index)) {
    return BadPath(path, absl::StrCat("found '", absl::CEscape(rest), "' behind '", element.name,
                                      "', expected an index such as [0]"));
  }
  element.index = index;
  return element;
}

absl::StatusOr<std::vector<PathElement>> ParsePath(absl::string_view path) {
  std::vector<PathElement> elements;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('.', begin), path.size());
    ASSIGN_OR_RETURN(PathElement element, ParseElement(path.substr(begin, end - begin), path));
    element.path = std::string(path.substr(0, end));
    elements.push_back(element);
    begin = end + 1;
  }
  return elements;
}

// Says what stands in the value and what the field takes.
absl::Status BadValue(absl::string_view found, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("found '", absl::CEscape(found), "', expected ", expected));
}

std::string EnumNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(type.value_count()));
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  return absl::StrJoin(names, ", ");
}

// Keeps the first error.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int /*line*/, google::protobuf::io::ColumnNumber /*column*/,
                const std::string& message) override {
    if (text_.empty()) text_ = message;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A whole message or list, in text format: parsed as "name: value" into an empty message of the
// parent's type, then exchanged with the parent's field.
absl::Status SetFromText(absl::string_view value, const FieldDescriptor* field, Message* parent) {
  const bool list = field->is_repeated();
  const char open = list ? '[' : '{';
  const char close = list ? ']' : '}';
  if (value.size() < 2 || value.front() != open || value.back() != close) {
    const absl::string_view what = list ? "a whole list such as [1, 2], or set one element with [0]"
                                        : "a whole message such as {}, or set one of its fields";
    const std::string fields =
        field->message_type() == nullptr || list
            ? ""
            : absl::StrCat(": ", absl::StrJoin(FieldNames(*field->message_type()), ", "));
    return BadValue(value, absl::StrCat(what, fields));
  }
  std::unique_ptr<Message> parsed(parent->New());
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxNesting);
  const std::string text = absl::StrCat(field->name(), ": ", value);
  if (!parser.ParseFromString(text, parsed.get())) return BadValue(value, error.text());
  // A value such as "[1] epochs: 5 x: [2]" would set more than it names.
  std::vector<const FieldDescriptor*> set;
  parsed->GetReflection()->ListFields(*parsed, &set);
  if (set.size() > 1) return BadValue(value, "the value of one field");
  parent->GetReflection()->SwapFields(parent, parsed.get(), {field});
  return absl::OkStatus();
}

// A field without fields of its own, or one element of a list of them.
struct Scalar {
  Message* parent;
  const FieldDescriptor* field;
  std::optional<int> index;

  // Writes the value through the setters of its C++ type.
  template <typename Value>
  absl::Status Set(Value value,
                   void (Reflection::*set)(Message*, const FieldDescriptor*, Value) const,
                   void (Reflection::*set_at)(Message*, const FieldDescriptor*, int, Value) const) {
    const Reflection& reflection = *parent->GetReflection();
    if (index.has_value()) {
      (reflection.*set_at)(parent, field, *index, value);
    } else {
      (reflection.*set)(parent, field, value);
    }
    return absl::OkStatus();
  }
};

template <typename Integer>
absl::StatusOr<Integer> ParseInteger(absl::string_view value, absl::string_view expected) {
  Integer number = 0;
  if (!absl::SimpleAtoi(value, &number)) return BadValue(value, expected);
  return number;
}

absl::Status SetInteger(absl::string_view value, Scalar scalar) {
  switch (scalar.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      ASSIGN_OR_RETURN(const int32_t number,
                       ParseInteger<int32_t>(value, "a whole number of 32 bits"));
      return scalar.Set(number, &Reflection::SetInt32, &Reflection::SetRepeatedInt32);
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      ASSIGN_OR_RETURN(const int64_t number,
                       ParseInteger<int64_t>(value, "a whole number of 64 bits"));
      return scalar.Set(number, &Reflection::SetInt64, &Reflection::SetRepeatedInt64);
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      ASSIGN_OR_RETURN(const uint32_t number,
                       ParseInteger<uint32_t>(value, "a whole number from 0 to 4294967295"));
      return scalar.Set(number, &Reflection::SetUInt32, &Reflection::SetRepeatedUInt32);
    }
    default: {
      ASSIGN_OR_RETURN(const uint64_t number,
                       ParseInteger<uint64_t>(value, "a whole number, 0 or more"));
      return scalar.Set(number, &Reflection::SetUInt64, &Reflection::SetRepeatedUInt64);
    }
  }
}

absl::Status SetScalar(absl::string_view value, Scalar scalar) {
  switch (scalar.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_FLOAT: {
      float number = 0;
      if (!absl::SimpleAtof(value, &number)) return BadValue(value, "a number");
      return scalar.Set(number, &Reflection::SetFloat, &Reflection::SetRepeatedFloat);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double number = 0;
      if (!absl::SimpleAtod(value, &number)) return BadValue(value, "a number");
      return scalar.Set(number, &Reflection::SetDouble, &Reflection::SetRepeatedDouble);
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      if (value != "true" && value != "false") return BadValue(value, "true or false");
      return scalar.Set(value == "true", &Reflection::SetBool, &Reflection::SetRepeatedBool);
    case FieldDescriptor::CPPTYPE_STRING:
      return scalar.Set(std::string(value), &Reflection::SetString, &Reflection::SetRepeatedString);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumDescriptor& type = *scalar.field->enum_type();
      const EnumValueDescriptor* found = type.FindValueByName(std::string(value));
      if (found == nullptr) return BadValue(value, absl::StrCat("one of ", EnumNames(type)));
      return scalar.Set(found, &Reflection::SetEnum, &Reflection::SetRepeatedEnum);
    }
    default:
      return SetInteger(value, scalar);
  }
}

absl::StatusOr<const FieldDescriptor*> FindField(const PathElement& element,
                                                 const Message& parent) {
  const Descriptor& type = *parent.GetDescriptor();
  const FieldDescriptor* field = type.FindFieldByName(element.name);
  if (field == nullptr) {
    const std::vector<std::string> names = FieldNames(type);
    const std::string fields =
        names.empty() ? "it has none" : absl::StrCat("its fields: ", absl::StrJoin(names, ", "));
    return BadPath(element.path,
                   absl::StrCat(type.name(), " has no field '", absl::CEscape(element.name), "'",
                                DidYouMean(element.name, names), " (", fields, ")"));
  }
  if (!element.index.has_value()) return field;
  if (!field->is_repeated()) {
    return BadPath(element.path,
                   absl::StrCat("'", element.name, "' is not a list, expected no index"));
  }
  const int size = parent.GetReflection()->FieldSize(parent, field);
  if (*element.index >= size) {
    return BadPath(element.path,
                   absl::StrCat("index ", *element.index, " is beyond the list, which has ", size,
                                size == 1 ? " element" : " elements"));
  }
  return field;
}

// The message that the path goes on in.
absl::StatusOr<Message*> Descend(const PathElement& element, Message* parent) {
  ASSIGN_OR_RETURN(const FieldDescriptor* field, FindField(element, *parent));
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return BadPath(element.path, absl::StrCat("'", element.name, "' is a ", field->cpp_type_name(),
                                              " and has no fields"));
  }
  if (!field->is_repeated()) return parent->GetReflection()->MutableMessage(parent, field);
  if (!element.index.has_value()) {
    return BadPath(
        element.path,
        absl::StrCat("'", element.name, "' is a list, expected an index: ", element.name, "[0]"));
  }
  return parent->GetReflection()->MutableRepeatedMessage(parent, field, *element.index);
}

absl::Status SetLast(const PathElement& element, absl::string_view value, Message* parent) {
  ASSIGN_OR_RETURN(const FieldDescriptor* field, FindField(element, *parent));
  const bool message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (element.index.has_value() && message) {
    return BadPath(element.path,
                   "an element of a list of messages cannot be set as a whole; set its fields, or "
                   "the whole list");
  }
  const bool whole = message || (field->is_repeated() && !element.index.has_value());
  return WithContext(whole ? SetFromText(value, field, parent)
                           : SetScalar(value, Scalar{parent, field, element.index}),
                     element.path);
}

}  // namespace

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(type.field_count()));
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

absl::Status ApplyOverride(absl::string_view assignment, Message* message) {
  const size_t equals = assignment.find('=');
  if (equals == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("found '", absl::CEscape(assignment), "', expected path=value"));
  }
  const absl::string_view value = assignment.substr(equals + 1);
  ASSIGN_OR_RETURN(const std::vector<PathElement> path, ParsePath(assignment.substr(0, equals)));
  Message* parent = message;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    ASSIGN_OR_RETURN(parent, Descend(path[i], parent));
  }
  return SetLast(path.back(), value, parent);
}

}  // namespace sangam
