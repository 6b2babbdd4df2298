#include "client/commands/connection.h"

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/flags.h"
#include "client/job_client.h"
#include "common/base/status_macros.h"

namespace sangam {

void Connection::AddFlags(const Environment& environment, FlagSet* flags) {
  AddCoordinatorFlag(environment, flags);
  flags->AddDuration({"timeout", "TIME", "How long to try to reach the coordinator."}, &timeout_);
}

void Connection::AddCoordinatorFlag(const Environment& environment, FlagSet* flags) {
  coordinator_ = environment.coordinator;
  flags->AddString({"coordinator", "HOST:PORT",
                    "Where the coordinator (a sangam-server) answers. The environment variable "
                    "SANGAM_COORDINATOR sets the default."},
                   &coordinator_);
}

void Connection::AddOutputFlag(FlagSet* flags) {
  flags->AddChoice({"output", "", "A table for people, or JSON for programs."}, {"table", "json"},
                   &output_);
}

absl::StatusOr<std::unique_ptr<JobClient>> Connection::Connect(
    const Environment& environment, const std::function<absl::Status()>& check) const {
  JobClient::Options options;
  options.coordinator = coordinator_;
  options.timeout = timeout_;
  options.check = [&environment, check] {
    RETURN_IF_ERROR(environment.CheckInterrupt());
    return check();
  };
  options.clock = environment.clock;
  absl::StatusOr<std::unique_ptr<JobClient>> client = JobClient::Create(std::move(options));
  if (!client.ok()) return UsageError(client.status());
  return client;
}

}  // namespace sangam
