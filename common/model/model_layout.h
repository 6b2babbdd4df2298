#ifndef SANGAM_COMMON_MODEL_MODEL_LAYOUT_H_
#define SANGAM_COMMON_MODEL_MODEL_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/field_fault.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {

// Derives shapes, segments and costs from what the user said; of the loss depends only how many
// terms a sample has. Deterministic; the same whether the model's transformer layers have been
// expanded (ExpandModel) or not. Errors: InvalidArgument  layers that do not fit; one line for each
// fault, with its field path
//                          below `model`
absl::StatusOr<v1::ModelLayout> BuildModelLayout(const v1::ModelSpec& model,
                                                 const v1::LossSpec& loss = v1::LossSpec());

// As BuildModelLayout; faults are appended instead, with paths that begin with "model". The layout
// is good for nothing then.
v1::ModelLayout BuildModelLayout(const v1::ModelSpec& model, const v1::LossSpec& loss,
                                 std::vector<FieldFault>* faults);

// Fingerprint of everything that both ends of a data stream must agree on: layout, cut and
// optimizer of a job whose defaults are resolved.
uint64_t SchemaHash(const v1::JobSpec& spec, const v1::ModelLayout& layout);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_MODEL_LAYOUT_H_
