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
#include "common/data/augmentation.h"
#include "common/data/cifar.h"
#include "common/data/dataset.h"
#include "common/data/idx.h"
#include "common/data/input_file.h"
#include "common/data/normalisation.h"
#include "common/data/read_options.h"
#include "common/data/sample_rules.h"
#include "common/data/sequence.h"
#include "common/data/set_files.h"
#include "common/data/synthetic.h"
#include "common/data/table_sets.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

absl::Status CheckLabels(const SetFiles& set, const Dataset& data, const SampleRules& rules) {
  if (data.label_kind() != rules.label_kind) {
    return absl::InvalidArgumentError(absl::StrCat(
        set.labels_name(), " has labels that are classes; expected numbers, as the loss wants"));
  }
  if (data.labels_per_sample() != rules.labels_per_sample) {
    return absl::InvalidArgumentError(
        absl::StrCat(set.labels_name(), " has ", data.labels_per_sample(),
                     " labels for each sample; expected ", rules.labels_per_sample,
                     rules.label_kind == LabelKind::kNumber ? ", as many as the model has outputs"
                                                            : ", the terms of the loss"));
  }
  if (rules.label_kind == LabelKind::kClass && data.num_classes() > rules.classes) {
    return absl::InvalidArgumentError(absl::StrCat(
        set.labels_name(), " has the label ", data.num_classes() - 1, "; expected less than ",
        rules.classes, ", the number of the model's outputs"));
  }
  return absl::OkStatus();
}

absl::Status CheckFits(const SetFiles& set, const Dataset& data, const v1::ModelSpec& model,
                       const SampleRules& rules) {
  if (data.sample_elements() != rules.input_elements) {
    return absl::InvalidArgumentError(absl::StrCat(
        set.samples_name(), " has samples of ", absl::StrJoin(data.sample_shape(), " x "), ", ",
        data.sample_elements(), " elements; expected ", rules.input_elements,
        ", as model.input_shape says: ", absl::StrJoin(model.input_shape(), " x ")));
  }
  return CheckLabels(set, data, rules);
}

// Opens sets of which each can be opened alone.
class SetOpener {
 public:
  SetOpener(const v1::JobSpec& spec, const JobDataOptions& options, const ReadOptions& read)
      : spec_(spec), options_(options), read_(read) {}

  absl::StatusOr<std::unique_ptr<Dataset>> Open(const SetFiles& set, bool test,
                                                uint64_t max_memory_bytes) {
    read_.max_memory_bytes = max_memory_bytes;
    switch (spec_.data().kind_case()) {
      case v1::DataSpec::kIdx:
        return OpenIdx(set);
      case v1::DataSpec::kCifar:
        return OpenCifar(set);
      case v1::DataSpec::kSynthetic:
        return OpenSynthetic(test);
      default:
        return OpenSequence(set);
    }
  }

 private:
  absl::StatusOr<std::unique_ptr<Dataset>> OpenIdx(const SetFiles& set) const {
    IdxDataset::Options idx;
    ASSIGN_OR_RETURN(idx.images, FindFile(*options_.root, set.samples, set.samples_field));
    ASSIGN_OR_RETURN(idx.labels, FindFile(*options_.root, set.labels, set.labels_field));
    ASSIGN_OR_RETURN(const Normalisation normalisation, NormalisationOf(spec_.data(), 1));
    idx.mean = static_cast<float>(normalisation.mean[0]);
    idx.stddev = static_cast<float>(normalisation.stddev[0]);
    idx.rules = read_.rules;
    idx.max_memory_bytes = read_.max_memory_bytes;
    idx.cancelled = read_.cancelled;
    ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data, IdxDataset::Open(idx));
    return data;
  }

  absl::StatusOr<std::unique_ptr<Dataset>> OpenCifar(const SetFiles& set) const {
    ASSIGN_OR_RETURN(const std::vector<NamedFile> files,
                     FindSet(*options_.root, set, read_.cancelled));
    ASSIGN_OR_RETURN(const Normalisation normalisation,
                     NormalisationOf(spec_.data(), CifarDataset::kChannels));
    ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data, CifarDataset::Open(files, normalisation, read_),
                     "%s", set.samples_field);
    return data;
  }

  absl::StatusOr<std::unique_ptr<Dataset>> OpenSynthetic(bool test) const {
    const v1::SyntheticDataSpec& spec = spec_.data().synthetic();
    SyntheticDataset::Options synthetic;
    synthetic.seed = spec_.seed();
    synthetic.test = test;
    synthetic.samples = test ? spec.test_samples() : spec.train_samples();
    if (synthetic.samples == 0) {
      return absl::InvalidArgumentError(absl::StrCat("data.synthetic.", test ? "test" : "train",
                                                     "_samples: found 0, expected at least 1"));
    }
    synthetic.noise = spec.noise();
    const auto& shape = spec_.model().input_shape();
    synthetic.shape.assign(shape.begin(), shape.end());
    if (shape.empty()) {
      return absl::InvalidArgumentError(
          "model.input_shape: found nothing, expected the shape of a sample");
    }
    ASSIGN_OR_RETURN(synthetic.normalisation,
                     NormalisationOf(spec_.data(), synthetic.shape.back()));
    ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data,
                     SyntheticDataset::Open(std::move(synthetic), read_));
    return data;
  }

  absl::StatusOr<std::unique_ptr<Dataset>> OpenSequence(const SetFiles& set) const {
    SequenceDataset::Options sequence;
    const auto& shape = spec_.model().input_shape();
    if (shape.empty() || shape.Get(0) == 0) {
      return absl::InvalidArgumentError(
          "model.input_shape: found no positions, expected the length of a sample's sequence");
    }
    sequence.positions = shape.Get(0);
    ASSIGN_OR_RETURN(sequence.files, FindSet(*options_.root, set, read_.cancelled));
    if (spec_.data().has_tokens()) sequence.format = SequenceDataset::Format::kTokens;
    sequence.max_memory_bytes = read_.max_memory_bytes;
    sequence.cancelled = read_.cancelled;
    ASSIGN_OR_RETURN(std::unique_ptr<SequenceDataset> data, SequenceDataset::Open(sequence), "%s",
                     set.samples_field);
    if (read_.rules.vocabulary > 0 && data->num_classes() > read_.rules.vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(
          set.samples_name(), " has the token ", data->num_classes() - 1, "; expected less than ",
          read_.rules.vocabulary, ", the vocabulary of the model's embedding"));
    }
    return data;
  }

  const v1::JobSpec& spec_;
  const JobDataOptions& options_;
  ReadOptions read_;
};

bool IsTable(const v1::DataSpec& data) {
  return data.has_npy() || data.has_csv() || data.has_libsvm();
}

// A sample's [height, width, channels], and its normalisation.
absl::StatusOr<Augmentation> AugmentationOf(const v1::JobSpec& spec, const Dataset& data) {
  const v1::AugmentationSpec& wanted = spec.data().augmentation();
  const std::vector<uint64_t>& shape = data.sample_shape();
  if (shape.size() != 2 && shape.size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.augmentation: found samples of ", absl::StrJoin(shape, " x "),
                     ", expected images: height x width, or height x width x channels"));
  }
  Augmentation::Options options;
  options.seed = spec.seed();
  options.height = shape[0];
  options.width = shape[1];
  options.channels = shape.size() == 3 ? shape[2] : 1;
  options.crop_padding = wanted.crop_padding();
  options.horizontal_flip = wanted.horizontal_flip();
  ASSIGN_OR_RETURN(const Normalisation normalisation,
                   NormalisationOf(spec.data(), options.channels));
  for (uint64_t c = 0; c < options.channels; ++c) {
    options.zero.push_back(ValuesOfBytes(normalisation, c)[0]);
  }
  return Augmentation(std::move(options));
}

absl::Status CheckBoth(const JobData& data, const v1::JobSpec& spec, const SampleRules& rules) {
  ASSIGN_OR_RETURN(const SetFiles train, NameSet(spec.data(), /*test=*/false));
  RETURN_IF_ERROR(CheckFits(train, *data.train, spec.model(), rules));
  if (data.test == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const SetFiles test, NameSet(spec.data(), /*test=*/true));
  return CheckFits(test, *data.test, spec.model(), rules);
}

}  // namespace

uint32_t JobData::classes() const {
  return std::max(train->num_classes(), test == nullptr ? 0 : test->num_classes());
}

uint64_t JobData::memory_bytes() const {
  return (train == nullptr ? 0 : train->memory_bytes()) +
         (test == nullptr ? 0 : test->memory_bytes());
}

absl::StatusOr<JobData> OpenJobData(const v1::JobSpec& spec, const v1::ModelLayout& layout,
                                    const JobDataOptions& options) {
  if (layout.block_size() == 0) {
    return absl::InvalidArgumentError("plan.layout: found no blocks, expected at least 1");
  }
  ASSIGN_OR_RETURN(const SetFiles train, NameSet(spec.data(), /*test=*/false));
  ASSIGN_OR_RETURN(const SetFiles test, NameSet(spec.data(), /*test=*/true));
  const bool named =
      spec.data().has_synthetic() ? spec.data().synthetic().test_samples() > 0 : !test.empty();
  const bool with_test = named || !spec.evaluation().off();
  ReadOptions read;
  read.rules = RulesOf(spec, layout);
  read.max_memory_bytes = options.max_memory_bytes;
  read.cancelled = options.cancelled;
  if (read.rules.input_elements == 0 || read.rules.labels_per_sample == 0) {
    return absl::InvalidArgumentError(
        "model: found an input or output without elements, expected at least one of each");
  }
  JobData data;
  if (IsTable(spec.data())) {
    ASSIGN_OR_RETURN(TableSets sets, OpenTables(spec.data(), *options.root, with_test, read));
    data.train = std::move(sets.train);
    data.test = std::move(sets.test);
    data.skipped_lines = sets.skipped_lines;
    RETURN_IF_ERROR(CheckBoth(data, spec, read.rules));
  } else {
    SetOpener opener(spec, options, read);
    ASSIGN_OR_RETURN(data.train, opener.Open(train, /*test=*/false, options.max_memory_bytes));
    RETURN_IF_ERROR(CheckBoth(data, spec, read.rules));
    if (with_test) {
      const uint64_t left = options.max_memory_bytes - data.train->memory_bytes();
      ASSIGN_OR_RETURN(data.test, opener.Open(test, /*test=*/true, left));
      RETURN_IF_ERROR(CheckBoth(data, spec, read.rules));
    }
  }
  if (spec.data().has_augmentation()) {
    ASSIGN_OR_RETURN(data.augmentation, AugmentationOf(spec, *data.train));
  }
  return data;
}

}  // namespace sangam
