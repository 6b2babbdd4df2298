#include "worker/runtime/job_data.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "worker/data/dataset.h"
#include "worker/data/idx.h"

namespace sangam {
namespace {

// The files of one set, with the fields that name them.
struct IdxSet {
  std::string images;
  std::string labels;
  const char* prefix;  // "train" or "test"
};

absl::StatusOr<IdxDataset::File> Find(const DataRoot& root, const std::string& path,
                                      const std::string& field) {
  ASSIGN_OR_RETURN(std::string real, root.Resolve(path), "data.idx.%s", field);
  return IdxDataset::File{std::move(real), path};
}

template <typename Sizes>
uint64_t Product(const Sizes& sizes) {
  uint64_t product = 1;
  for (const uint64_t size : sizes) product *= size;
  return product;
}

absl::Status CheckFits(const IdxSet& set, const Dataset& data, const v1::ModelSpec& model,
                       const v1::ModelLayout& layout) {
  const uint64_t inputs = Product(model.input_shape());
  if (data.sample_elements() != inputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.idx.", set.prefix, "_images: ", set.images, " has samples of ",
                     absl::StrJoin(data.sample_shape(), " x "), ", ", data.sample_elements(),
                     " elements; expected ", inputs,
                     ", as model.input_shape says: ", absl::StrJoin(model.input_shape(), " x ")));
  }
  const v1::BlockLayout& last = layout.block(layout.block_size() - 1);
  const uint64_t outputs = Product(last.output_shape());
  if (data.num_classes() > outputs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.idx.", set.prefix, "_labels: ", set.labels, " has the label ", data.num_classes() - 1,
        "; expected less than ", outputs, ", the number of the model's outputs"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenSet(const IdxSet& set, const v1::DataSpec& spec,
                                                 const JobDataOptions& options,
                                                 uint64_t max_memory_bytes) {
  IdxDataset::Options idx;
  ASSIGN_OR_RETURN(idx.images,
                   Find(*options.root, set.images, absl::StrCat(set.prefix, "_images")));
  ASSIGN_OR_RETURN(idx.labels,
                   Find(*options.root, set.labels, absl::StrCat(set.prefix, "_labels")));
  idx.mean = spec.mean();
  idx.stddev = spec.has_stddev() ? spec.stddev() : 1.0f;
  idx.max_memory_bytes = max_memory_bytes;
  idx.cancelled = options.cancelled;
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data, IdxDataset::Open(idx));
  return data;
}

}  // namespace

uint32_t JobData::classes() const {
  return std::max(train->num_classes(), test == nullptr ? 0 : test->num_classes());
}

uint64_t JobData::memory_bytes() const {
  return train->memory_bytes() + (test == nullptr ? 0 : test->memory_bytes());
}

absl::StatusOr<JobData> OpenJobData(const v1::JobSpec& spec, const v1::ModelLayout& layout,
                                    const JobDataOptions& options) {
  if (!spec.data().has_idx()) {
    return absl::InvalidArgumentError("data: found no kind of data, expected idx");
  }
  if (layout.block_size() == 0) {
    return absl::InvalidArgumentError("plan.layout: found no blocks, expected at least 1");
  }
  const v1::IdxDataSpec& idx = spec.data().idx();
  const IdxSet train{idx.train_images(), idx.train_labels(), "train"};
  const IdxSet test{idx.test_images(), idx.test_labels(), "test"};
  JobData data;
  ASSIGN_OR_RETURN(data.train, OpenSet(train, spec.data(), options, options.max_memory_bytes));
  RETURN_IF_ERROR(CheckFits(train, *data.train, spec.model(), layout));
  if (test.images.empty() && test.labels.empty() && spec.evaluation().off()) return data;
  const uint64_t left = options.max_memory_bytes - data.train->memory_bytes();
  ASSIGN_OR_RETURN(data.test, OpenSet(test, spec.data(), options, left));
  RETURN_IF_ERROR(CheckFits(test, *data.test, spec.model(), layout));
  return data;
}

}  // namespace sangam
