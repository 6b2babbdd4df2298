#include "worker/data/batch_source.h"

#include <cstdint>

namespace sangam {

uint64_t BatchMemoryBytes(const BatchOptions& options) {
  return options.lanes * (options.ahead + options.held) * options.max_rows *
         (options.input_elements * sizeof(float) + options.labels_per_sample * sizeof(uint32_t));
}

}  // namespace sangam
