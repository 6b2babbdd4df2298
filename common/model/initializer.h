#ifndef SANGAM_COMMON_MODEL_INITIALIZER_H_
#define SANGAM_COMMON_MODEL_INITIALIZER_H_

#include <cstdint>

#include "proto/model.pb.h"

namespace sangam {

// Writes the first weights of elements [first, first + count) of a segment to `out` (count floats).
// Every element depends on (seed, parameter, element within the parameter) alone, so any range of
// any segment can be filled by anyone.
// REQUIRES: the range lies within the segment.
void FillInitialWeights(const v1::SegmentLayout& segment, uint64_t seed, uint64_t first,
                        uint64_t count, float* out);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_INITIALIZER_H_
