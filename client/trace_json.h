#ifndef SANGAM_CLIENT_TRACE_JSON_H_
#define SANGAM_CLIENT_TRACE_JSON_H_

#include <string>

#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

namespace sangam {

// A trace in Chrome's trace event format (JSON object form), as Perfetto and chrome://tracing open
// it. Pure. One process for each worker, in the order of the trace, and in it one thread for each
// lane; an event is a complete one ("X") with:
//   name  "forward b0..b1 mb 3", "push b2 share 0", "wait b0"
//   cat   compute, link, wait, push or load; cname goes with the activity
//   ts    microseconds since the first event of the whole trace; dur likewise
//   args  step, micro_batch (of PUSH share) and block, by name
// `job` tells where its stages begin; without stages the model is one. A pass is shown with all its
// blocks: from the event's own, up or down to where the next pass of the same micro-batch takes
// over or to the end of the stage.
std::string ToChromeTrace(const v1::JobTrace& trace, const v1::Job& job);

}  // namespace sangam

#endif  // SANGAM_CLIENT_TRACE_JSON_H_
