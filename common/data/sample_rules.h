#ifndef SANGAM_COMMON_DATA_SAMPLE_RULES_H_
#define SANGAM_COMMON_DATA_SAMPLE_RULES_H_

#include <cstdint>
#include <string>

#include "common/model/label_kind.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {

// What a job's model and loss ask of the numbers of a data set. Readers apply them one by one,
// while they still know the place of a number that breaks a rule. A value.
struct SampleRules {
  // Inputs of one sample.
  uint64_t input_elements = 1;
  uint64_t labels_per_sample = 1;
  // > 0: inputs are tokens, rows of the table of an embedding.
  uint64_t vocabulary = 0;
  LabelKind label_kind = LabelKind::kClass;
  // Classes: labels are below; at most 2^31.
  uint64_t classes = uint64_t{1} << 31;
  // Numbers: labels are within [0, 1].
  bool unit_targets = false;

  // False when the value breaks the rules; then nothing is written.
  bool TakeInput(double value, float* input) const;
  bool TakeLabel(double value, uint32_t* label) const;
  // What a number must be, for messages: "expected ...".
  std::string expected_input() const;
  std::string expected_label() const;
};

// `layout` is of the job's model, with at least one block.
SampleRules RulesOf(const v1::JobSpec& spec, const v1::ModelLayout& layout);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_SAMPLE_RULES_H_
