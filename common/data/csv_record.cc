#include "common/data/csv_record.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/data/text_lines.h"

namespace sangam {

absl::StatusOr<bool> CsvRecords::Next(std::vector<std::string>* fields) {
  do {
    ASSIGN_OR_RETURN(const bool found, lines_.Next(&line_));
    if (!found) return false;
    if (std::exchange(first_, false) && absl::StartsWith(line_, "\xEF\xBB\xBF")) line_.erase(0, 3);
  } while (line_.empty());
  place_ = lines_.place();
  RETURN_IF_ERROR(Split(fields));
  return true;
}

absl::Status CsvRecords::Split(std::vector<std::string>* fields) {
  fields->clear();
  size_t at = 0;
  for (;;) {
    if (fields->size() == kMaxFields) {
      return absl::InvalidArgumentError(
          absl::StrCat(place_, ": found more than ", kMaxFields, " fields, expected fewer"));
    }
    std::string& field = fields->emplace_back();
    if (at < line_.size() && line_[at] == '"') {
      RETURN_IF_ERROR(ReadQuoted(&at, &field));
    } else {
      const size_t end = std::min(line_.find(separator_, at), line_.size());
      field.assign(line_, at, end - at);
      at = end;
    }
    if (at == line_.size()) return absl::OkStatus();
    ++at;  // the separator
  }
}

absl::Status CsvRecords::ReadQuoted(size_t* at, std::string* field) {
  ++*at;
  for (;;) {
    const size_t quote = line_.find('"', *at);
    if (quote == std::string::npos) {
      // The field goes on in the next line.
      field->append(line_, *at, std::string::npos);
      field->push_back('\n');
      ASSIGN_OR_RETURN(const bool found, lines_.Next(&line_));
      if (!found || field->size() > TextLines::kMaxLineBytes) {
        return absl::InvalidArgumentError(
            absl::StrCat(place_, ": found a quoted field without an end, expected '\"'"));
      }
      *at = 0;
      continue;
    }
    field->append(line_, *at, quote - *at);
    *at = quote + 1;
    if (*at == line_.size() || line_[*at] == separator_) return absl::OkStatus();
    if (line_[*at] != '"') {
      return absl::InvalidArgumentError(absl::StrCat(
          place_, ": found ", Shown(absl::string_view(line_).substr(*at)),
          " behind a quoted field, expected a separator or the end of the line (a quote within a "
          "field is written \"\")"));
    }
    field->push_back('"');
    ++*at;
  }
}

}  // namespace sangam
