#ifndef SANGAM_COMMON_MODEL_LAYER_CHECK_H_
#define SANGAM_COMMON_MODEL_LAYER_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/field_fault.h"
#include "common/model/layer_shapes.h"
#include "proto/model.pb.h"

namespace sangam {

// Bounds that keep every product of sizes and every byte count within 64 bits.
inline constexpr uint64_t kMaxDimension = uint64_t{1} << 31;
inline constexpr uint64_t kMaxElements = uint64_t{1} << 40;
// Layers of a block, those within others included.
inline constexpr uint64_t kMaxLayersPerBlock = 1024;

// Whether all dimensions are > 0 and they and their product are within the bounds.
bool CheckShape(const Shape& shape, const std::string& field, std::vector<FieldFault>* faults);

// Checks the layers of block `place.block` as the user wrote them, whose input has `shape`; returns
// the shape after each. A layer that does not fit counts as if it left its input as it is, so that
// those behind it are checked as well. `field`: the block's path.
// REQUIRES: CheckShape(shape).
std::vector<Shape> CheckLayers(const LayerPlace& place, const Shape& shape,
                               const std::string& field, std::vector<FieldFault>* faults);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_LAYER_CHECK_H_
