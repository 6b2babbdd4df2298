#ifndef SANGAM_COMMON_DATA_CSV_COLUMNS_H_
#define SANGAM_COMMON_DATA_CSV_COLUMNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace sangam {

// Which columns of a CSV file a job uses.
struct CsvColumns {
  // From the first line; empty when the file has none.
  std::vector<std::string> header;
  uint64_t count = 0;  // of all columns
  // Numbers of columns, in the order of a sample's elements.
  std::vector<uint64_t> input;
  std::vector<uint64_t> label;

  // "column 3" or "column "price"", for messages.
  std::string Name(uint64_t column) const;
};

// Finds the job's columns among those of a file. `header`: their names, empty with spec.no_header;
// `place`: of the file's first record, for messages.
// Errors: InvalidArgument  a column that is not there, is named twice, or is both label and input;
// no
//                          column is left for the inputs
absl::StatusOr<CsvColumns> FindColumns(const v1::CsvDataSpec& spec, std::vector<std::string> header,
                                       uint64_t count, const std::string& place);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_CSV_COLUMNS_H_
