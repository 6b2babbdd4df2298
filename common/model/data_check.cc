#include "common/model/data_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

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

void CheckNormalisation(const v1::DataSpec& data, std::vector<FieldFault>* faults) {
  if (!std::isfinite(data.mean())) {
    AddFault(faults, "data.mean", "found ", data.mean(), ", expected a finite number");
  }
  if (data.has_stddev() && (!std::isfinite(data.stddev()) || !(data.stddev() > 0))) {
    AddFault(faults, "data.stddev", "found ", data.stddev(), ", expected a finite number > 0");
  }
}

void CheckIdx(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  const v1::IdxDataSpec& idx = spec.data().idx();
  CheckPath("data.idx.train_images", idx.train_images(), faults);
  CheckPath("data.idx.train_labels", idx.train_labels(), faults);
  const bool evaluates = !spec.evaluation().off();
  if (evaluates || !idx.test_images().empty() || !idx.test_labels().empty()) {
    if (idx.test_images().empty() && idx.test_labels().empty()) {
      AddFault(faults, "data.idx.test_images",
               "found nothing, expected a test set because the job evaluates "
               "(evaluation.off is false)");
    } else {
      CheckPath("data.idx.test_images", idx.test_images(), faults);
      CheckPath("data.idx.test_labels", idx.test_labels(), faults);
    }
  }
  CheckNormalisation(spec.data(), faults);
  if (HasEmbedding(spec.model())) {
    AddFault(faults, "data.idx",
             "found images in front of an embedding layer, expected text or tokens: an embedding "
             "takes the numbers of tokens");
  }
  if (spec.loss().kind_case() != v1::LossSpec::KIND_NOT_SET &&
      !spec.loss().has_softmax_cross_entropy()) {
    AddFault(faults, "loss", "found ", LossName(spec.loss()),
             ", expected softmax_cross_entropy (data.idx has one label for each sample)");
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

// Sequences of tokens: `kind` is "text" or "tokens".
void CheckSequences(const v1::JobSpec& spec, const std::string& kind, const Patterns& train,
                    const Patterns& test, std::vector<FieldFault>* faults) {
  const std::string field = absl::StrCat("data.", kind);
  if (train.empty()) {
    AddFault(faults, absl::StrCat(field, ".train"), "found nothing, expected at least one pattern");
  }
  CheckPatterns(absl::StrCat(field, ".train"), train, faults);
  if (test.empty() && !spec.evaluation().off()) {
    AddFault(faults, absl::StrCat(field, ".test"),
             "found nothing, expected a test set because the job evaluates (evaluation.off is "
             "false)");
  }
  CheckPatterns(absl::StrCat(field, ".test"), test, faults);
  // Tokens are numbers of rows of a table: shifting and scaling them would name others.
  if (spec.data().mean() != 0) {
    AddFault(faults, "data.mean", "found ", spec.data().mean(), ", expected none with data.", kind);
  }
  if (spec.data().has_stddev()) {
    AddFault(faults, "data.stddev", "found ", spec.data().stddev(), ", expected none with data.",
             kind);
  }
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

}  // namespace

void CheckData(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  const v1::DataSpec& data = spec.data();
  switch (data.kind_case()) {
    case v1::DataSpec::kIdx:
      CheckIdx(spec, faults);
      return;
    case v1::DataSpec::kText:
      CheckSequences(spec, "text", data.text().train(), data.text().test(), faults);
      return;
    case v1::DataSpec::kTokens:
      CheckSequences(spec, "tokens", data.tokens().train(), data.tokens().test(), faults);
      return;
    case v1::DataSpec::KIND_NOT_SET:
    default:
      break;
  }
  AddFault(faults, "data", "found no source, expected idx, text or tokens");
}

}  // namespace sangam
