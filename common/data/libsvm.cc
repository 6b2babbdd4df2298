#include "common/data/libsvm.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/data/input_file.h"
#include "common/data/read_options.h"
#include "common/data/table.h"
#include "common/data/text_lines.h"

namespace sangam {
namespace {

constexpr absl::string_view kSpace = " \t\v\f\r";

// Takes the next word off `text`; "" at its end.
absl::string_view NextWord(absl::string_view* text) {
  const size_t begin = std::min(text->find_first_not_of(kSpace), text->size());
  const size_t end = std::min(text->find_first_of(kSpace, begin), text->size());
  const absl::string_view word = text->substr(begin, end - begin);
  text->remove_prefix(end);
  return word;
}

// Fills one row from a line.
class LineParser {
 public:
  LineParser(const std::string& place, bool zero_based, const SampleRules& rules)
      : place_(place), first_(zero_based ? 0 : 1), rules_(rules) {}

  absl::Status Parse(absl::string_view label, absl::string_view pairs, Table::Row row) const {
    double value = 0;
    if (!ParseNumber(label, &value) || !rules_.TakeLabel(value, row.labels)) {
      return Fault("label", label, rules_.expected_label());
    }
    std::fill_n(row.inputs, rules_.input_elements, 0.0f);
    uint64_t next = first_;
    for (absl::string_view word = NextWord(&pairs); !word.empty(); word = NextWord(&pairs)) {
      const size_t colon = word.find(':');
      uint64_t index = 0;
      if (colon == absl::string_view::npos || !Digits(word.substr(0, colon), &index)) {
        return Fault("pair", word, "index:value");
      }
      if (index < next || index - first_ >= rules_.input_elements) {
        return Fault("index", word.substr(0, colon),
                     index < next && next > first_
                         ? absl::StrCat("more than ", next - 1, ", the one before")
                         : absl::StrCat(first_, " to ", rules_.input_elements - 1 + first_,
                                        ", as many as model.input_shape has elements"));
      }
      const absl::string_view number = word.substr(colon + 1);
      if (!ParseNumber(number, &value) || !rules_.TakeInput(value, row.inputs + (index - first_))) {
        return Fault(absl::StrCat("value of index ", index), number, rules_.expected_input());
      }
      next = index + 1;
    }
    return absl::OkStatus();
  }

 private:
  static bool Digits(absl::string_view text, uint64_t* number) {
    return text.find_first_not_of("0123456789") == absl::string_view::npos &&
           absl::SimpleAtoi(text, number);
  }
  absl::Status Fault(absl::string_view what, absl::string_view found,
                     absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat(place_, ": ", what, ": found ", Shown(found), ", expected ", expected));
  }

  const std::string place_;
  const uint64_t first_;
  const SampleRules& rules_;
};

}  // namespace

absl::StatusOr<Table> ReadLibsvm(const std::vector<NamedFile>& files, bool zero_based,
                                 const ReadOptions& options) {
  SANGAM_CHECK(!files.empty());
  ASSIGN_OR_RETURN(Table table,
                   Table::Create(options.rules.input_elements, 1, options.max_memory_bytes), "%s",
                   files.front().name);
  std::string line;
  for (const NamedFile& file : files) {
    ASSIGN_OR_RETURN(TextLines lines, TextLines::Open(file, &options));
    for (;;) {
      ASSIGN_OR_RETURN(const bool found, lines.Next(&line));
      if (!found) break;
      absl::string_view text = absl::string_view(line).substr(0, line.find('#'));
      const absl::string_view label = NextWord(&text);
      if (label.empty()) continue;
      ASSIGN_OR_RETURN(const Table::Row row, table.Add(), "%s", lines.place());
      RETURN_IF_ERROR(LineParser(lines.place(), zero_based, options.rules).Parse(label, text, row));
    }
  }
  if (table.rows() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.front().name, ": found no sample, expected at least one line"));
  }
  return table;
}

}  // namespace sangam
