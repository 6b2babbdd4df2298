#ifndef SANGAM_CLIENT_FINAL_LINE_H_
#define SANGAM_CLIENT_FINAL_LINE_H_

#include <string>

#include "proto/job.pb.h"

namespace sangam {

// How a job ended, on one line for people and scripts, without a line break:
//
//   job NAME SUCCEEDED steps=705 test_accuracy=0.8912 samples_per_second=12345
//   job NAME FAILED steps=17 reason="worker 'worker-1' is lost" samples_per_second=9876
//
// `steps` is the number of completed steps. `test_accuracy` is that of the last evaluation, left
// out when there was none; `reason` is left out when the job succeeded, `samples_per_second` when
// no step was completed.
std::string FinalLine(const v1::Job& job);

}  // namespace sangam

#endif  // SANGAM_CLIENT_FINAL_LINE_H_
