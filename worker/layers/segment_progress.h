#ifndef SANGAM_WORKER_LAYERS_SEGMENT_PROGRESS_H_
#define SANGAM_WORKER_LAYERS_SEGMENT_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <limits>

#include "absl/status/status.h"

namespace sangam {

// How a pass of a block and the exchange of the block's own segment with the servers go on at the
// same time, so that neither waits for the other to end.

// Asked by a forward pass before it reads weights at elements [first, first + count), of which
// there may be fewer: returns when they are there. An error ends the pass.
using WeightsArrival = std::function<absl::Status(uint64_t first, uint64_t count)>;
inline constexpr uint64_t kAllElements = std::numeric_limits<uint64_t>::max();

// Told by a backward pass, as it goes, that elements [first, first + count) of the gradient are
// final; and by then the pass has read the weights at these places for the last time. Each element
// once, in any order; those of some layers are never told, and are final when the pass ends. An
// error ends the pass.
using GradientProgress = std::function<absl::Status(uint64_t first, uint64_t count)>;

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_SEGMENT_PROGRESS_H_
