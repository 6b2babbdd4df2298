#ifndef SANGAM_COMMON_DATA_SET_FILES_H_
#define SANGAM_COMMON_DATA_SET_FILES_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/data_root.h"
#include "common/data/input_file.h"
#include "proto/job.pb.h"

namespace sangam {

// The training or the test set of a job as the user named it.
struct SetFiles {
  // Fields of the job that name samples and labels, "data.idx.train_images"; the same one when a
  // file has both, "data.csv.train".
  std::string samples_field;
  std::string labels_field;
  // Paths or, when `patterns`, any number of patterns in `samples` alone.
  std::vector<std::string> samples;
  std::vector<std::string> labels;
  bool patterns = false;

  bool empty() const { return samples.empty() && labels.empty(); }
  // What messages call them: the field and the first path.
  std::string samples_name() const;
  std::string labels_name() const;
};

// Errors: InvalidArgument  the data is of no kind
absl::StatusOr<SetFiles> NameSet(const v1::DataSpec& data, bool test);

// The file at a path. Errors: as DataRoot::Resolve, with the field
absl::StatusOr<NamedFile> FindFile(const DataRoot& root, const std::vector<std::string>& path,
                                   const std::string& field);

// All that match the patterns, each once, in the order of their names.
// Errors: InvalidArgument  there is no pattern
//         others           as FindFiles, with the field
absl::StatusOr<std::vector<NamedFile>> FindSet(const DataRoot& root, const SetFiles& set,
                                               const std::atomic<bool>* cancelled);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_SET_FILES_H_
