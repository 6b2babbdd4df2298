#include "client/commands/connection.h"

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/job_client.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"
#include "common/rpc/process_credentials.h"

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
  security_.AddClientFlags(flags);
  flags->AddString({"config", "FILE",
                    "A file with values for flags that verbs share, such as --coordinator; see "
                    "sangam config."},
                   &config_);
}

void Connection::AddOutputFlag(FlagSet* flags) {
  flags->AddChoice({"output", "", "A table for people, or JSON for programs."}, {"table", "json"},
                   &output_);
}

absl::StatusOr<std::unique_ptr<JobClient>> Connection::Connect(
    const Environment& environment, const std::function<absl::Status()>& check) const {
  if (const absl::Status check = security_.CheckClient(); !check.ok()) return UsageError(check);
  absl::StatusOr<std::shared_ptr<ProcessCredentials>> credentials =
      ProcessCredentials::ForClient(security_);
  // A file that is not there is no job that is not there.
  if (!credentials.ok()) return UsageError(credentials.status());
  SetProcessCredentials(*std::move(credentials));
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
