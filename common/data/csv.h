#ifndef SANGAM_COMMON_DATA_CSV_H_
#define SANGAM_COMMON_DATA_CSV_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/csv_columns.h"
#include "common/data/input_file.h"
#include "common/data/read_options.h"
#include "common/data/table.h"
#include "proto/job.pb.h"

namespace sangam {

// Samples from CSV files (see CsvRecords), one record each. A field is missing when it is empty or
// says "nan" or "NA"; what then happens is the job's choice. A missing label can only be refused or
// its line left out: labels are never made up.
//
// What a test set needs to know of the training set.
struct CsvTraining {
  CsvColumns columns;
  // With COLUMN_MEAN: of each input column over the training set, without the missing values.
  std::vector<double> means;
};
struct CsvData {
  Table table;
  CsvTraining training;
  // Lines left out by SKIP_LINE.
  uint64_t skipped_lines = 0;
};

// `files`: at least one, all with the same columns. `training`: of the same job when this is its
// test set, which must have the same columns and is completed by the training set's means; else
// nullptr. Every message names file and line, the column, what was found and expected. Errors:
// InvalidArgument    a faulty record, number or header; no sample is left
//         ResourceExhausted  more memory is needed than allowed, or than can be had
//         Cancelled          options.cancelled became true
//         others             see InputFile::Open
absl::StatusOr<CsvData> ReadCsv(const v1::CsvDataSpec& spec, const std::vector<NamedFile>& files,
                                const ReadOptions& options, const CsvTraining* training);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_CSV_H_
