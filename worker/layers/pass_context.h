#ifndef SANGAM_WORKER_LAYERS_PASS_CONTEXT_H_
#define SANGAM_WORKER_LAYERS_PASS_CONTEXT_H_

#include <cstdint>

namespace sangam {

// What a pass over one micro-batch knows besides its tensors. Row r of a matrix is the sample at
// position first_position + r of the step's global batch.
struct PassContext {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t first_position = 0;
  // False: evaluation; dropout is the identity and nothing is kept for backward.
  bool training = true;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_PASS_CONTEXT_H_
