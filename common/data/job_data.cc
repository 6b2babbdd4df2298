#include "common/data/job_data.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/data/dataset.h"
#include "common/data/file_pattern.h"
#include "common/data/idx.h"
#include "common/data/input_file.h"
#include "common/data/sequence.h"
#include "google/protobuf/repeated_field.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

using Patterns = google::protobuf::RepeatedPtrField<std::string>;

// One set of a job as the user named it.
struct NamedSet {
  std::string field;                   // "data.idx.train", for messages
  std::string images;                  // idx
  std::string labels;                  // idx
  const Patterns* patterns = nullptr;  // sequences
  SequenceDataset::Format format = SequenceDataset::Format::kBytes;

  bool empty() const {
    return patterns == nullptr ? images.empty() && labels.empty() : patterns->empty();
  }
  // What messages call the samples, and the labels.
  std::string samples_name() const {
    return patterns == nullptr ? absl::StrCat(field, "_images: ", images)
                               : absl::StrCat(field, ": ", patterns->Get(0));
  }
  std::string labels_name() const {
    return patterns == nullptr ? absl::StrCat(field, "_labels: ", labels)
                               : absl::StrCat(field, ": ", patterns->Get(0));
  }
};

// The training or the test set.
// Errors: InvalidArgument  the data is of no kind
absl::StatusOr<NamedSet> NameSet(const v1::DataSpec& data, bool test) {
  NamedSet set;
  const char* const name = test ? "test" : "train";
  switch (data.kind_case()) {
    case v1::DataSpec::kIdx:
      set.field = absl::StrCat("data.idx.", name);
      set.images = test ? data.idx().test_images() : data.idx().train_images();
      set.labels = test ? data.idx().test_labels() : data.idx().train_labels();
      return set;
    case v1::DataSpec::kText:
      set.field = absl::StrCat("data.text.", name);
      set.patterns = test ? &data.text().test() : &data.text().train();
      return set;
    case v1::DataSpec::kTokens:
      set.field = absl::StrCat("data.tokens.", name);
      set.patterns = test ? &data.tokens().test() : &data.tokens().train();
      set.format = SequenceDataset::Format::kTokens;
      return set;
    case v1::DataSpec::KIND_NOT_SET:
    default:
      break;
  }
  return absl::InvalidArgumentError("data: found no kind of data, expected idx, text or tokens");
}

absl::StatusOr<NamedFile> FindFile(const DataRoot& root, const std::string& path,
                                   const std::string& field) {
  ASSIGN_OR_RETURN(std::string real, root.Resolve(path), "%s", field);
  return NamedFile{std::move(real), path};
}

// All that match, each once, in the order of their names.
absl::StatusOr<std::vector<NamedFile>> FindAll(const JobDataOptions& options, const NamedSet& set) {
  std::vector<NamedFile> files;
  for (int p = 0; p < set.patterns->size(); ++p) {
    ASSIGN_OR_RETURN(std::vector<NamedFile> found,
                     FindFiles(*options.root, set.patterns->Get(p), options.cancelled), "%s[%d]",
                     set.field, p);
    for (NamedFile& file : found) files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(),
            [](const NamedFile& a, const NamedFile& b) { return a.name < b.name; });
  files.erase(std::unique(files.begin(), files.end(),
                          [](const NamedFile& a, const NamedFile& b) { return a.name == b.name; }),
              files.end());
  return files;
}

template <typename Sizes>
uint64_t Product(const Sizes& sizes) {
  uint64_t product = 1;
  for (const uint64_t size : sizes) product *= size;
  return product;
}

// Rows of the table that the samples enter; 0: they enter another layer. In front of it there is
// nothing that changes them.
uint64_t Vocabulary(const v1::ModelSpec& model) {
  if (model.block_size() == 0) return 0;
  for (const v1::LayerSpec& layer : model.block(0).layer()) {
    if (layer.has_embedding()) return layer.embedding().vocabulary();
  }
  return 0;
}

absl::Status CheckLabels(const NamedSet& set, const Dataset& data, const v1::ModelSpec& model,
                         const v1::ModelLayout& layout) {
  const uint64_t terms = std::max<uint64_t>(1, layout.terms_per_sample());
  if (data.labels_per_sample() != terms) {
    return absl::InvalidArgumentError(
        absl::StrCat(set.labels_name(), " has ", data.labels_per_sample(),
                     " labels for each sample; expected ", terms, ", the terms of the loss"));
  }
  const auto& shape = layout.block(layout.block_size() - 1).output_shape();
  const uint64_t outputs = set.patterns == nullptr ? Product(shape)
                           : shape.empty()         ? 0
                                                   : shape.Get(shape.size() - 1);
  if (data.num_classes() > outputs) {
    return absl::InvalidArgumentError(absl::StrCat(set.labels_name(), " has the label ",
                                                   data.num_classes() - 1, "; expected less than ",
                                                   outputs, ", the number of the model's outputs"));
  }
  const uint64_t vocabulary = Vocabulary(model);
  if (set.patterns != nullptr && vocabulary > 0 && data.num_classes() > vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        set.samples_name(), " has the token ", data.num_classes() - 1, "; expected less than ",
        vocabulary, ", the vocabulary of the model's embedding"));
  }
  return absl::OkStatus();
}

absl::Status CheckFits(const NamedSet& set, const Dataset& data, const v1::ModelSpec& model,
                       const v1::ModelLayout& layout) {
  const uint64_t inputs = Product(model.input_shape());
  if (data.sample_elements() != inputs) {
    return absl::InvalidArgumentError(absl::StrCat(
        set.samples_name(), " has samples of ", absl::StrJoin(data.sample_shape(), " x "), ", ",
        data.sample_elements(), " elements; expected ", inputs,
        ", as model.input_shape says: ", absl::StrJoin(model.input_shape(), " x ")));
  }
  return CheckLabels(set, data, model, layout);
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenIdx(const NamedSet& set, const v1::DataSpec& spec,
                                                 const JobDataOptions& options,
                                                 uint64_t max_memory_bytes) {
  IdxDataset::Options idx;
  ASSIGN_OR_RETURN(idx.images,
                   FindFile(*options.root, set.images, absl::StrCat(set.field, "_images")));
  ASSIGN_OR_RETURN(idx.labels,
                   FindFile(*options.root, set.labels, absl::StrCat(set.field, "_labels")));
  idx.mean = spec.mean();
  idx.stddev = spec.has_stddev() ? spec.stddev() : 1.0f;
  idx.max_memory_bytes = max_memory_bytes;
  idx.cancelled = options.cancelled;
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data, IdxDataset::Open(idx));
  return data;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenSequence(const NamedSet& set, uint64_t positions,
                                                      const JobDataOptions& options,
                                                      uint64_t max_memory_bytes) {
  SequenceDataset::Options sequence;
  if (set.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(set.field, ": found nothing, expected at least one pattern"));
  }
  ASSIGN_OR_RETURN(sequence.files, FindAll(options, set));
  sequence.format = set.format;
  sequence.positions = positions;
  sequence.max_memory_bytes = max_memory_bytes;
  sequence.cancelled = options.cancelled;
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data, SequenceDataset::Open(sequence), "%s", set.field);
  return data;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenSet(const NamedSet& set, const v1::JobSpec& spec,
                                                 const v1::ModelLayout& layout,
                                                 const JobDataOptions& options,
                                                 uint64_t max_memory_bytes) {
  std::unique_ptr<Dataset> data;
  if (set.patterns == nullptr) {
    ASSIGN_OR_RETURN(data, OpenIdx(set, spec.data(), options, max_memory_bytes));
  } else {
    const uint64_t positions =
        spec.model().input_shape_size() == 0 ? 0 : spec.model().input_shape(0);
    if (positions == 0) {
      return absl::InvalidArgumentError(
          "model.input_shape: found no positions, expected the length of a sample's sequence");
    }
    ASSIGN_OR_RETURN(data, OpenSequence(set, positions, options, max_memory_bytes));
  }
  RETURN_IF_ERROR(CheckFits(set, *data, spec.model(), layout));
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
  if (layout.block_size() == 0) {
    return absl::InvalidArgumentError("plan.layout: found no blocks, expected at least 1");
  }
  ASSIGN_OR_RETURN(const NamedSet train, NameSet(spec.data(), /*test=*/false));
  ASSIGN_OR_RETURN(const NamedSet test, NameSet(spec.data(), /*test=*/true));
  JobData data;
  ASSIGN_OR_RETURN(data.train, OpenSet(train, spec, layout, options, options.max_memory_bytes));
  if (test.empty() && spec.evaluation().off()) return data;
  const uint64_t left = options.max_memory_bytes - data.train->memory_bytes();
  ASSIGN_OR_RETURN(data.test, OpenSet(test, spec, layout, options, left));
  return data;
}

}  // namespace sangam
