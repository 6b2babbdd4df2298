#include "common/data/sample_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

constexpr uint64_t kMaxClasses = uint64_t{1} << 31;

template <typename Sizes>
uint64_t Product(const Sizes& sizes) {
  uint64_t product = 1;
  for (const uint64_t size : sizes) product *= size;
  return product;
}

// Rows of the table that the samples enter; 0: they enter another layer. In front of it there is
// nothing that changes them.
uint64_t VocabularyOf(const v1::ModelSpec& model) {
  if (model.block_size() == 0) return 0;
  for (const v1::LayerSpec& layer : model.block(0).layer()) {
    if (layer.has_embedding()) return layer.embedding().vocabulary();
  }
  return 0;
}

bool IsWholeBelow(double value, uint64_t limit) {
  return value >= 0 && value < static_cast<double>(limit) && value == std::floor(value);
}

}  // namespace

bool SampleRules::TakeInput(double value, float* input) const {
  const auto rounded = static_cast<float>(value);
  if (!std::isfinite(rounded)) return false;
  if (vocabulary > 0 && !IsWholeBelow(value, vocabulary)) return false;
  *input = rounded;
  return true;
}

bool SampleRules::TakeLabel(double value, uint32_t* label) const {
  if (label_kind == LabelKind::kClass) {
    if (!IsWholeBelow(value, classes)) return false;
    *label = static_cast<uint32_t>(value);
    return true;
  }
  const auto number = static_cast<float>(value);
  if (!std::isfinite(number) || (unit_targets && !(number >= 0 && number <= 1))) return false;
  std::memcpy(label, &number, sizeof(number));
  return true;
}

std::string SampleRules::expected_input() const {
  if (vocabulary == 0) return "a number within the range of binary32";
  return absl::StrCat("a token, a whole number below ", vocabulary,
                      " (the vocabulary of the model's embedding)");
}

std::string SampleRules::expected_label() const {
  if (label_kind == LabelKind::kClass) {
    return absl::StrCat("a class, a whole number below ", classes,
                        " (the number of the model's outputs)");
  }
  return unit_targets ? "a number from 0 to 1, as binary_cross_entropy wants it"
                      : "a number within the range of binary32";
}

SampleRules RulesOf(const v1::JobSpec& spec, const v1::ModelLayout& layout) {
  SampleRules rules;
  rules.input_elements = Product(spec.model().input_shape());
  rules.vocabulary = VocabularyOf(spec.model());
  rules.label_kind = LabelKindOf(spec.loss());
  const auto& shape = layout.block(layout.block_size() - 1).output_shape();
  if (rules.label_kind == LabelKind::kNumber) {
    rules.labels_per_sample = Product(shape);
    rules.classes = 0;
    rules.unit_targets = spec.loss().has_binary_cross_entropy();
    return rules;
  }
  rules.labels_per_sample = std::max<uint64_t>(1, layout.terms_per_sample());
  const uint64_t outputs = Product(shape) / rules.labels_per_sample;
  rules.classes = std::min(outputs, kMaxClasses);
  return rules;
}

}  // namespace sangam
