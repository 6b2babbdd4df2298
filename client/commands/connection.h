#ifndef SANGAM_CLIENT_COMMANDS_CONNECTION_H_
#define SANGAM_CLIENT_COMMANDS_CONNECTION_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/job_client.h"
#include "common/flags/flags.h"
#include "common/security/security_flags.h"

namespace sangam {

// The flags that commands share which talk to a coordinator.
class Connection {
 public:
  // --coordinator, who the user is to it, --config and --timeout.
  void AddFlags(const Environment& environment, FlagSet* flags);
  // The same without --timeout.
  void AddCoordinatorFlag(const Environment& environment, FlagSet* flags);
  // --output.
  void AddOutputFlag(FlagSet* flags);

  // Where the coordinator is, as the flags say, and with which credentials.
  const std::string& coordinator() const { return coordinator_; }
  const SecurityFlags& security() const { return security_; }
  bool json() const { return output_ == "json"; }
  absl::Duration timeout() const { return timeout_; }
  void set_timeout(absl::Duration timeout) { timeout_ = timeout; }

  // A client that stops when the user interrupts. `environment` must outlive it. From then on the
  // process is, to all peers, who the flags say.
  // Errors: InvalidArgument  the address is not "host:port", or flags do not go together (usage
  //                          errors); as ProcessCredentials::ForClient
  // `check` is asked besides, several times a second; an error ends a call.
  absl::StatusOr<std::unique_ptr<JobClient>> Connect(
      const Environment& environment,
      const std::function<absl::Status()>& check = [] { return absl::OkStatus(); }) const;

 private:
  std::string coordinator_;
  SecurityFlags security_;
  std::string config_;  // read before the verb runs
  absl::Duration timeout_ = absl::Seconds(10);
  std::string output_ = "table";
};

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_CONNECTION_H_
