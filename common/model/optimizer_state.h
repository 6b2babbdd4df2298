#ifndef SANGAM_COMMON_MODEL_OPTIMIZER_STATE_H_
#define SANGAM_COMMON_MODEL_OPTIMIZER_STATE_H_

#include <vector>

#include "proto/model.pb.h"

namespace sangam {

// Names of the arrays that an optimizer keeps beside the weights, each of as many numbers, in the
// order of checkpoints; as PyTorch calls them.
// REQUIRES: the specification has been checked and its defaults resolved.
std::vector<const char*> OptimizerStateNames(const v1::OptimizerSpec& spec);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_OPTIMIZER_STATE_H_
