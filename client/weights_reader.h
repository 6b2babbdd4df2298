#ifndef SANGAM_CLIENT_WEIGHTS_READER_H_
#define SANGAM_CLIENT_WEIGHTS_READER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/weights_assembly.h"
#include "proto/job.pb.h"

namespace sangam {

struct WeightsReaderOptions {
  // To reach a server that does not answer, or breaks off for want of memory, without a new page.
  absl::Duration connect_deadline = absl::Seconds(10);
  // Longest time between two pages.
  absl::Duration page_deadline = absl::Seconds(30);
  // For all pages of one server.
  absl::Duration server_deadline = absl::Minutes(30);
  // Asked some twenty times a second while waiting; an error ends the call and is returned.
  std::function<absl::Status()> check = [] { return absl::OkStatus(); };
};

// Reads all weights of a job from the servers that hold them.
//
// Errors: FailedPrecondition  the servers hold no weights of the job (any more), pages are missing
// or
//                             of different steps
//         Unavailable         a server cannot be reached; names it
//         DeadlineExceeded    a server sends too slowly; names it
//         InvalidArgument     a server sends what is no page of the job
//         others              as Options.check
absl::StatusOr<WeightsAssembly> ReadWeights(const v1::Job& job,
                                            const WeightsReaderOptions& options);

}  // namespace sangam

#endif  // SANGAM_CLIENT_WEIGHTS_READER_H_
