#include "client/table.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/flags/wrap.h"

namespace sangam {

std::string FormatTable(const std::vector<Column>& columns,
                        const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> cells(1);
  for (const Column& column : columns) cells[0].push_back(column.title);
  cells.insert(cells.end(), rows.begin(), rows.end());
  std::vector<size_t> widths(columns.size(), 0);
  for (std::vector<std::string>& row : cells) {
    row.resize(columns.size());
    for (size_t c = 0; c < columns.size(); ++c) widths[c] = std::max(widths[c], TextWidth(row[c]));
  }
  std::string result;
  for (const std::vector<std::string>& row : cells) {
    std::string line;
    for (size_t c = 0; c < columns.size(); ++c) {
      const std::string blanks(widths[c] - TextWidth(row[c]), ' ');
      absl::StrAppend(&line, c == 0 ? "" : "  ", columns[c].right ? blanks : "", row[c],
                      columns[c].right ? "" : blanks);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&result, line, "\n");
  }
  return result;
}

}  // namespace sangam
