#include "client/commands/watch.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/follow.h"
#include "client/job_client.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

class WatchCommand : public Command {
 public:
  CommandText text() const override {
    return {"watch",
            "JOB",
            "Follow a job to its end.",
            "JOB is a job's number, or its name: then the newest job of that name. Shows its\n"
            "events from the beginning on: with a moving bar on a terminal, else a line every\n"
            "few seconds. With --output=json each event is a line of JSON.\n\n"
            "The exit code is 0 when the job succeeded, 3 when it failed, 4 when it was\n"
            "cancelled. When the coordinator is out of reach for a while the command goes on\n"
            "where it was; --timeout bounds how long it tries. Ctrl-C only ends\n"
            "the watching.\n",
            {"sangam watch 12", "sangam watch fashion-mnist-mlp --output=json"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    // From here on by its number: a newer job may take the name.
    ASSIGN_OR_RETURN(const v1::Job job, client->Get(arguments[0]));
    FollowOptions options;
    options.json = connection_.json();
    ASSIGN_OR_RETURN(const v1::Job ended, FollowJob(job, options, environment, client.get()));
    return ExitCodeOf(ended);
  }

 private:
  Connection connection_;
};

}  // namespace

std::unique_ptr<Command> MakeWatchCommand() { return std::make_unique<WatchCommand>(); }

}  // namespace sangam
