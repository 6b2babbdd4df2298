#ifndef SANGAM_COMMON_DATA_TABLE_SETS_H_
#define SANGAM_COMMON_DATA_TABLE_SETS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/data/data_root.h"
#include "common/data/normalisation.h"
#include "common/data/read_options.h"
#include "common/data/table.h"
#include "proto/job.pb.h"

namespace sangam {

// The data sets of a job whose samples are numbers: npy, csv and libsvm.
struct TableSets {
  std::unique_ptr<TableDataset> train;
  std::unique_ptr<TableDataset> test;  // nullptr when the job names none
  // What the inputs went through.
  Normalisation normalisation;
  // Left out because of missing values.
  uint64_t skipped_lines = 0;
};

// Reads and normalises them. With data.standardize both sets go by the training set's columns.
// `with_test`: read the test set too.
// Errors: as ReadNpy, ReadCsv, ReadLibsvm, FindFiles and NormalisationOf; names the field
absl::StatusOr<TableSets> OpenTables(const v1::DataSpec& spec, const DataRoot& root, bool with_test,
                                     const ReadOptions& options);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_TABLE_SETS_H_
