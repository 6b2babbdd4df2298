#ifndef SANGAM_WORKER_CORE_TRACED_STEPS_H_
#define SANGAM_WORKER_CORE_TRACED_STEPS_H_

#include <cstdint>

namespace sangam {

// Whether the workers of a job tell what they did in this step, all of them alike: the first steps,
// then one in 64, and the last one.
inline bool IsTraced(uint64_t step, uint64_t steps_total) {
  return step < 16 || step % 64 == 0 || step + 1 == steps_total;
}

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_TRACED_STEPS_H_
