#ifndef SANGAM_CLIENT_TABLE_H_
#define SANGAM_CLIENT_TABLE_H_

#include <string>
#include <vector>

namespace sangam {

// A column of a table. Numbers stand to the right, words to the left.
struct Column {
  std::string title;
  bool right = false;
};

// Rows under titles, two spaces between columns, no blanks at the ends of lines, a line break after
// each. Widths are counted in characters of UTF-8 text. Missing cells are empty; surplus ones are
// ignored.
std::string FormatTable(const std::vector<Column>& columns,
                        const std::vector<std::vector<std::string>>& rows);

}  // namespace sangam

#endif  // SANGAM_CLIENT_TABLE_H_
