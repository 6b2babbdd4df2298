#include "common/model/data_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/model/field_fault.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

using Patterns = google::protobuf::RepeatedPtrField<std::string>;

// False when it is a fault.
bool CheckPath(const std::string& field, const std::string& path, std::vector<FieldFault>* faults) {
  if (path.empty()) {
    AddFault(faults, field, "found nothing, expected a path below the workers' --data_root");
  } else if (path[0] == '/') {
    AddFault(faults, field, "found \"", path,
             "\", expected a path relative to the workers' --data_root");
  } else {
    return true;
  }
  return false;
}

// Only the first block can have one.
bool HasEmbedding(const v1::ModelSpec& model) {
  if (model.block_size() == 0) return false;
  const auto& layers = model.block(0).layer();
  return std::any_of(layers.begin(), layers.end(),
                     [](const v1::LayerSpec& layer) { return layer.has_embedding(); });
}

// The field of LossSpec that is set. REQUIRES: one is.
std::string LossName(const v1::LossSpec& loss) {
  return v1::LossSpec::descriptor()->FindFieldByNumber(loss.kind_case())->name();
}

const char* KindName(const v1::DataSpec& data) {
  switch (data.kind_case()) {
    case v1::DataSpec::kIdx:
      return "idx";
    case v1::DataSpec::kText:
      return "text";
    case v1::DataSpec::kTokens:
      return "tokens";
    case v1::DataSpec::kCifar:
      return "cifar";
    case v1::DataSpec::kNpy:
      return "npy";
    case v1::DataSpec::kCsv:
      return "csv";
    case v1::DataSpec::kLibsvm:
      return "libsvm";
    case v1::DataSpec::kSynthetic:
      return "synthetic";
    case v1::DataSpec::KIND_NOT_SET:
      break;
  }
  return "";
}

// Whether inputs are tokens: numbers of rows of a table. Shifting and scaling them would name
// others.
bool HasTokens(const v1::JobSpec& spec) {
  const v1::DataSpec& data = spec.data();
  const bool images = data.has_idx() || data.has_cifar();
  return data.has_text() || data.has_tokens() || (HasEmbedding(spec.model()) && !images);
}

void CheckNumbers(const v1::DataSpec& data, std::vector<FieldFault>* faults) {
  if (!std::isfinite(data.mean())) {
    AddFault(faults, "data.mean", "found ", data.mean(), ", expected a finite number");
  }
  if (data.has_stddev() && (!std::isfinite(data.stddev()) || !(data.stddev() > 0))) {
    AddFault(faults, "data.stddev", "found ", data.stddev(), ", expected a finite number > 0");
  }
  for (int c = 0; c < data.channel_mean_size(); ++c) {
    if (std::isfinite(data.channel_mean(c))) continue;
    AddFault(faults, absl::StrCat("data.channel_mean[", c, "]"), "found ", data.channel_mean(c),
             ", expected a finite number");
  }
  for (int c = 0; c < data.channel_stddev_size(); ++c) {
    if (std::isfinite(data.channel_stddev(c)) && data.channel_stddev(c) > 0) continue;
    AddFault(faults, absl::StrCat("data.channel_stddev[", c, "]"), "found ", data.channel_stddev(c),
             ", expected a finite number > 0");
  }
}

// As many numbers as channels, where the kind of data tells how many there are.
void CheckChannels(const v1::DataSpec& data, std::vector<FieldFault>* faults) {
  const int channels = data.has_cifar() ? 3 : data.has_idx() ? 1 : 0;
  const auto count = [&](const char* field, int found) {
    if (found == 0 || channels == 0 || found == channels) return;
    AddFault(faults, field, "found ", found, " numbers, expected ", channels,
             ", one for each channel of data.", KindName(data));
  };
  count("data.channel_mean", data.channel_mean_size());
  count("data.channel_stddev", data.channel_stddev_size());
}

// The four fields that say by which numbers inputs are shifted and scaled.
void CheckNormalisation(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  const v1::DataSpec& data = spec.data();
  CheckNumbers(data, faults);
  CheckChannels(data, faults);
  const bool channels = data.channel_mean_size() + data.channel_stddev_size() > 0;
  const bool all_alike = data.mean() != 0 || data.has_stddev();
  const bool tables = data.has_npy() || data.has_csv() || data.has_libsvm();
  if (HasTokens(spec)) {
    const auto none = [&](const char* field, bool given, const std::string& found) {
      if (!given) return;
      AddFault(faults, field, "found ", found, ", expected none with ",
               HasEmbedding(spec.model()) ? "an embedding" : "data.",
               HasEmbedding(spec.model()) ? "" : KindName(data));
    };
    none("data.mean", data.mean() != 0, absl::StrCat(data.mean()));
    none("data.stddev", data.has_stddev(), absl::StrCat(data.stddev()));
    none("data.channel_mean", data.channel_mean_size() > 0, "numbers");
    none("data.channel_stddev", data.channel_stddev_size() > 0, "numbers");
    none("data.standardize", data.standardize(), "true");
  } else if (data.standardize()) {
    if (!tables) {
      AddFault(faults, "data.standardize", "found true with data.", KindName(data),
               ", expected npy, csv or libsvm");
    }
    if (channels || all_alike) {
      AddFault(faults, "data.standardize",
               "found true beside mean, stddev, channel_mean or channel_stddev, expected one of "
               "both: the training set's own numbers or the job's");
    }
  } else if (channels && all_alike) {
    AddFault(faults, data.channel_mean_size() > 0 ? "data.channel_mean" : "data.channel_stddev",
             "found one beside mean or stddev, expected numbers for each channel or for all");
  }
}

void CheckAugmentation(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  constexpr uint32_t kMaxPadding = 1024;
  const v1::DataSpec& data = spec.data();
  if (!data.has_augmentation()) return;
  if (!data.has_idx() && !data.has_cifar() && !data.has_npy()) {
    AddFault(faults, "data.augmentation", "found one with data.", KindName(data),
             ", expected images: idx, cifar or npy");
  } else if (HasEmbedding(spec.model()) || data.standardize()) {
    AddFault(faults, "data.augmentation", "found one with ",
             data.standardize() ? "standardize" : "an embedding",
             ", expected images whose pixels have one meaning wherever they lie");
  }
  if (data.augmentation().crop_padding() > kMaxPadding) {
    AddFault(faults, "data.augmentation.crop_padding", "found ", data.augmentation().crop_padding(),
             ", expected at most ", kMaxPadding);
  }
}

void MissingTestSet(const std::string& field, std::vector<FieldFault>* faults) {
  AddFault(faults, field,
           "found nothing, expected a test set because the job evaluates (evaluation.off is "
           "false)");
}

// Files of samples and files of labels; `inputs`: "images" or "inputs".
struct FilePairs {
  const std::string& train_inputs;
  const std::string& train_labels;
  const std::string& test_inputs;
  const std::string& test_labels;
};

void CheckPairs(const v1::JobSpec& spec, const std::string& inputs, const FilePairs& paths,
                std::vector<FieldFault>* faults) {
  const std::string field = absl::StrCat("data.", KindName(spec.data()), ".");
  CheckPath(absl::StrCat(field, "train_", inputs), paths.train_inputs, faults);
  CheckPath(absl::StrCat(field, "train_labels"), paths.train_labels, faults);
  if (paths.test_inputs.empty() && paths.test_labels.empty()) {
    if (!spec.evaluation().off()) MissingTestSet(absl::StrCat(field, "test_", inputs), faults);
    return;
  }
  CheckPath(absl::StrCat(field, "test_", inputs), paths.test_inputs, faults);
  CheckPath(absl::StrCat(field, "test_labels"), paths.test_labels, faults);
}

// One label for each image, and no tokens.
void CheckImages(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  const std::string kind = KindName(spec.data());
  if (HasEmbedding(spec.model())) {
    AddFault(faults, absl::StrCat("data.", kind),
             "found images in front of an embedding layer, expected text or tokens: an embedding "
             "takes the numbers of tokens");
  }
  if (spec.loss().has_token_cross_entropy()) {
    AddFault(faults, "loss", "found token_cross_entropy, expected softmax_cross_entropy (data.",
             kind, " has one label for each sample)");
  }
}

void CheckPatterns(const std::string& field, const Patterns& patterns,
                   std::vector<FieldFault>* faults) {
  for (int i = 0; i < patterns.size(); ++i) {
    const std::string& pattern = patterns.Get(i);
    const std::string path = absl::StrCat(field, "[", i, "]");
    if (!CheckPath(path, pattern, faults)) continue;
    const std::vector<std::string> parts = absl::StrSplit(pattern, '/');
    if (std::find(parts.begin(), parts.end(), "..") != parts.end()) {
      AddFault(faults, path, "found \"", pattern,
               "\", expected a path that stays below the workers' --data_root, without \"..\"");
    } else if (absl::StrContains(pattern, '\0')) {
      AddFault(faults, path, "found a NUL character, expected a path");
    }
  }
}

void CheckPatternSets(const v1::JobSpec& spec, const Patterns& train, const Patterns& test,
                      std::vector<FieldFault>* faults) {
  const std::string field = absl::StrCat("data.", KindName(spec.data()));
  if (train.empty()) {
    AddFault(faults, absl::StrCat(field, ".train"), "found nothing, expected at least one pattern");
  }
  CheckPatterns(absl::StrCat(field, ".train"), train, faults);
  if (test.empty() && !spec.evaluation().off()) {
    MissingTestSet(absl::StrCat(field, ".test"), faults);
  }
  CheckPatterns(absl::StrCat(field, ".test"), test, faults);
}

// Sequences of tokens.
void CheckSequences(const v1::JobSpec& spec, const Patterns& train, const Patterns& test,
                    std::vector<FieldFault>* faults) {
  CheckPatternSets(spec, train, test, faults);
  const std::string field = absl::StrCat("data.", KindName(spec.data()));
  if (spec.model().input_shape_size() > 1) {
    AddFault(faults, "model.input_shape", "found [", absl::StrJoin(spec.model().input_shape(), ","),
             "], expected one dimension with ", field, ": the tokens of a sequence");
  }
  if (spec.loss().kind_case() != v1::LossSpec::KIND_NOT_SET &&
      !spec.loss().has_token_cross_entropy()) {
    AddFault(faults, "loss", "found ", LossName(spec.loss()), ", expected token_cross_entropy (",
             field, " has one label for each token)");
  }
}

void CheckCifar(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  CheckPatternSets(spec, spec.data().cifar().train(), spec.data().cifar().test(), faults);
  CheckImages(spec, faults);
  const auto& shape = spec.model().input_shape();
  if (shape.size() == 3 && (shape.Get(0) != 32 || shape.Get(1) != 32 || shape.Get(2) != 3)) {
    AddFault(faults, "model.input_shape", "found [", absl::StrJoin(shape, ","),
             "], expected [32,32,3], an image of data.cifar");
  }
}

void CheckCsv(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  const v1::CsvDataSpec& csv = spec.data().csv();
  CheckPatternSets(spec, csv.train(), csv.test(), faults);
  if (csv.label().empty()) {
    AddFault(faults, "data.csv.label", "found nothing, expected at least one column");
  }
  const std::string& separator = csv.separator();
  if (separator.size() > 1 || (separator.size() == 1 && absl::StrContains("\"\r\n", separator))) {
    AddFault(faults, "data.csv.separator", "found \"", absl::CEscape(separator),
             "\", expected one character (of one byte) that is no quote and ends no line");
  }
  if (!v1::CsvDataSpec::Missing_IsValid(csv.missing())) {
    AddFault(faults, "data.csv.missing", "found ", csv.missing(),
             ", expected REFUSE, SKIP_LINE, COLUMN_MEAN or ZERO");
  }
  if (csv.missing() == v1::CsvDataSpec::COLUMN_MEAN && HasEmbedding(spec.model())) {
    AddFault(faults, "data.csv.missing",
             "found COLUMN_MEAN in front of an embedding layer, expected another choice: a mean of "
             "tokens is no token");
  }
}

void CheckSynthetic(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  constexpr uint64_t kMaxSamples = uint64_t{1} << 40;
  const v1::SyntheticDataSpec& synthetic = spec.data().synthetic();
  const auto count = [&](const char* field, uint64_t found, uint64_t least) {
    if (found >= least && found <= kMaxSamples) return;
    AddFault(faults, field, "found ", found, ", expected ", least, " to ", kMaxSamples);
  };
  count("data.synthetic.train_samples", synthetic.train_samples(), 1);
  count("data.synthetic.test_samples", synthetic.test_samples(), spec.evaluation().off() ? 0 : 1);
  if (!std::isfinite(synthetic.noise()) || !(synthetic.noise() >= 0)) {
    AddFault(faults, "data.synthetic.noise", "found ", synthetic.noise(),
             ", expected a finite number >= 0");
  }
}

void CheckKind(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  const v1::DataSpec& data = spec.data();
  switch (data.kind_case()) {
    case v1::DataSpec::kIdx:
      CheckPairs(spec, "images",
                 {data.idx().train_images(), data.idx().train_labels(), data.idx().test_images(),
                  data.idx().test_labels()},
                 faults);
      return CheckImages(spec, faults);
    case v1::DataSpec::kNpy:
      return CheckPairs(spec, "inputs",
                        {data.npy().train_inputs(), data.npy().train_labels(),
                         data.npy().test_inputs(), data.npy().test_labels()},
                        faults);
    case v1::DataSpec::kText:
      return CheckSequences(spec, data.text().train(), data.text().test(), faults);
    case v1::DataSpec::kTokens:
      return CheckSequences(spec, data.tokens().train(), data.tokens().test(), faults);
    case v1::DataSpec::kCifar:
      return CheckCifar(spec, faults);
    case v1::DataSpec::kCsv:
      return CheckCsv(spec, faults);
    case v1::DataSpec::kLibsvm:
      return CheckPatternSets(spec, data.libsvm().train(), data.libsvm().test(), faults);
    case v1::DataSpec::kSynthetic:
      return CheckSynthetic(spec, faults);
    case v1::DataSpec::KIND_NOT_SET:
      break;
  }
  AddFault(faults, "data",
           "found no source, expected idx, text, tokens, cifar, npy, csv, libsvm or synthetic");
}

}  // namespace

void CheckData(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  CheckKind(spec, faults);
  if (spec.data().kind_case() == v1::DataSpec::KIND_NOT_SET) return;
  CheckNormalisation(spec, faults);
  CheckAugmentation(spec, faults);
}

}  // namespace sangam
