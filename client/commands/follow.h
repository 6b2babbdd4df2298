#ifndef SANGAM_CLIENT_COMMANDS_FOLLOW_H_
#define SANGAM_CLIENT_COMMANDS_FOLLOW_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/job_client.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

namespace sangam {

struct FollowOptions {
  // Each event as a line of JSON on the output, instead of progress for people.
  bool json = false;
  // Where the progress for people goes: to the output or to the error stream. A terminal gets a
  // bar.
  bool progress_on_error_stream = false;
  // Called with each event, and some twenty times a second; an error ends the following.
  std::function<absl::Status(const v1::JobEvent&)> on_event = [](const v1::JobEvent&) {
    return absl::OkStatus();
  };
  std::function<absl::Status()> on_idle = [] { return absl::OkStatus(); };
};

// Shows what happens to a job, of which number and specification are known, from its beginning
// until it has ended, and returns the ended job. Errors: as JobClient::Watch and Get; as the
// options' functions
absl::StatusOr<v1::Job> FollowJob(const v1::Job& job, const FollowOptions& options,
                                  const Environment& environment, JobClient* client);

// For a job that has ended.
ExitCode ExitCodeOf(const v1::Job& job);

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_FOLLOW_H_
