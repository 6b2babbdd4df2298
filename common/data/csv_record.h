#ifndef SANGAM_COMMON_DATA_CSV_RECORD_H_
#define SANGAM_COMMON_DATA_CSV_RECORD_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/text_lines.h"

namespace sangam {

// Takes a CSV file apart (RFC 4180): records end with "\n" or "\r\n", a field may stand in double
// quotes, within which separators and line ends belong to it and "" means one quote. Empty lines
// are left out, and so is a UTF-8 byte order mark. Not thread-safe.
class CsvRecords {
 public:
  static constexpr size_t kMaxFields = size_t{1} << 20;

  // `lines` is borrowed.
  CsvRecords(TextLines* lines, char separator) : lines_(*lines), separator_(separator) {}

  // Writes the fields of the next record. False: there is none.
  // Errors: InvalidArgument  a quote that is not closed, or text behind the closing one; names the
  // line
  //         others           as TextLines::Next
  absl::StatusOr<bool> Next(std::vector<std::string>* fields);

  // "FILE:LINE" of the record's first line.
  const std::string& place() const { return place_; }

 private:
  absl::Status Split(std::vector<std::string>* fields);
  absl::Status ReadQuoted(size_t* at, std::string* field);

  TextLines& lines_;
  const char separator_;
  bool first_ = true;
  std::string line_;
  std::string place_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_CSV_RECORD_H_
