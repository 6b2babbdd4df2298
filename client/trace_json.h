#ifndef SANGAM_CLIENT_TRACE_JSON_H_
#define SANGAM_CLIENT_TRACE_JSON_H_

#include <string>

#include "proto/job_service.pb.h"

namespace sangam {

// A trace in Chrome's trace event format (JSON object form), as Perfetto and chrome://tracing open
// it. Pure. One process for each worker, in the order of the trace, and in it one thread for each
// lane; an event is a complete one ("X") with:
//   name  "forward b0..b1 mb 3", "push b2 share 0", "wait b0"
//   cat   compute, link, wait, push or load; cname goes with the activity
//   ts    microseconds since the first event of the whole trace; dur likewise
//   args  step, micro_batch (of PUSH share) and block, by name
// A pass is shown with all the blocks of its stage: up to the next block with which some worker's
// forward pass begins.
std::string ToChromeTrace(const v1::JobTrace& trace);

}  // namespace sangam

#endif  // SANGAM_CLIENT_TRACE_JSON_H_
