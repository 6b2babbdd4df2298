#ifndef SANGAM_COMMON_DATA_BATCH_ID_H_
#define SANGAM_COMMON_DATA_BATCH_ID_H_

#include <cstdint>

namespace sangam {

// Which samples: micro-batch `index` of the training step `step`, or chunk `index` of the test set.
struct BatchId {
  bool evaluation = false;
  uint64_t step = 0;  // training, and the weights' step of an evaluation
  uint32_t index = 0;

  friend bool operator==(const BatchId& a, const BatchId& b) {
    return a.evaluation == b.evaluation && a.step == b.step && a.index == b.index;
  }
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_BATCH_ID_H_
