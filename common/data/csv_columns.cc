#include "common/data/csv_columns.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/base/suggestion.h"
#include "common/data/text_lines.h"
#include "google/protobuf/repeated_field.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

using Names = google::protobuf::RepeatedPtrField<std::string>;

constexpr size_t kMaxListed = 20;

// "; did you mean 'x'? (columns: ...)"
std::string Hint(const CsvColumns& columns, const std::string& name) {
  const std::vector<std::string>& header = columns.header;
  if (header.empty()) {
    return absl::StrCat(", expected a number from 0 to ", columns.count - 1,
                        " (data.csv.no_header: columns have no names)");
  }
  const size_t listed = std::min(header.size(), kMaxListed);
  std::vector<std::string> shown;
  for (size_t c = 0; c < listed; ++c) shown.push_back(Shown(header[c]));
  return absl::StrCat(DidYouMean(name, header), " (columns: ", absl::StrJoin(shown, ", "),
                      listed < header.size() ? ", ..." : "", ")");
}

absl::StatusOr<uint64_t> FindColumn(const CsvColumns& columns, const std::string& name) {
  const std::vector<std::string>& header = columns.header;
  const auto found = std::find(header.begin(), header.end(), name);
  if (found != header.end()) {
    if (std::find(found + 1, header.end(), name) != header.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("several columns have the name ", Shown(name), ", expected its number"));
    }
    return static_cast<uint64_t>(found - header.begin());
  }
  uint64_t number = 0;
  const bool digits = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
  if (digits && absl::SimpleAtoi(name, &number) && number < columns.count) return number;
  return absl::InvalidArgumentError(
      absl::StrCat("found no column ", Shown(name), Hint(columns, name)));
}

absl::Status FindAll(const Names& names, const char* field, CsvColumns* columns,
                     std::vector<bool>* used, std::vector<uint64_t>* numbers) {
  for (int i = 0; i < names.size(); ++i) {
    ASSIGN_OR_RETURN(const uint64_t column, FindColumn(*columns, names.Get(i)), "data.csv.%s[%d]",
                     field, i);
    if ((*used)[column]) {
      return absl::InvalidArgumentError(absl::StrCat("data.csv.", field, "[", i, "]: found ",
                                                     columns->Name(column),
                                                     " a second time, expected each column once"));
    }
    (*used)[column] = true;
    numbers->push_back(column);
  }
  return absl::OkStatus();
}

}  // namespace

std::string CsvColumns::Name(uint64_t column) const {
  return column < header.size() ? absl::StrCat("column ", Shown(header[column]))
                                : absl::StrCat("column ", column);
}

absl::StatusOr<CsvColumns> FindColumns(const v1::CsvDataSpec& spec, std::vector<std::string> header,
                                       uint64_t count, const std::string& place) {
  CsvColumns columns;
  columns.header = std::move(header);
  columns.count = count;
  std::vector<bool> used(count, false);
  RETURN_IF_ERROR(FindAll(spec.label(), "label", &columns, &used, &columns.label), "%s", place);
  RETURN_IF_ERROR(FindAll(spec.input(), "input", &columns, &used, &columns.input), "%s", place);
  if (spec.input().empty()) {
    for (uint64_t column = 0; column < count; ++column) {
      if (!used[column]) columns.input.push_back(column);
    }
  }
  if (columns.label.empty() || columns.input.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": found ", columns.input.size(), " input and ", columns.label.size(),
                     " label columns of ", count, ", expected at least one of each"));
  }
  return columns;
}

}  // namespace sangam
