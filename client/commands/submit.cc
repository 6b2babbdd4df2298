#include "client/commands/submit.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/follow.h"
#include "client/commands/job_source.h"
#include "client/commands/job_tables.h"
#include "client/final_line.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

class SubmitCommand : public Command {
 public:
  CommandText text() const override {
    return {"submit",
            "FILE",
            "Queue a job.",
            "FILE holds the job's specification, in protobuf's text format or in JSON (a name\n"
            "that ends in .json, or a text that begins with '{'). The coordinator checks all\n"
            "of it and lists every fault.\n\n"
            "A job that asks for more workers or servers than there are is refused, unless\n"
            "--wait_for_daemons says that they will come.\n\n"
            "With --wait the command shows the progress, on the error stream, until the job\n"
            "has ended, and its exit code tells how: 0 for a job that succeeded, 3 for one\n"
            "that failed, 4 for one that was cancelled.\n"
            "Ctrl-C only ends the waiting.\n",
            {"sangam submit deploy/jobs/fashion_mnist_mlp.textproto",
             "sangam submit job.textproto --set epochs=1 --set name=short --wait",
             "sangam submit job.textproto --validate_only"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    source_.AddFlags(flags);
    flags->AddSwitch({"wait", "", "Show the progress and wait for the end of the job."}, &wait_);
    flags->AddSwitch(
        {"wait_for_daemons", "", "Queue the job also when workers or servers for it are missing."},
        &wait_for_daemons_);
    flags->AddSwitch({"validate_only", "", "Check the specification without queueing the job."},
                     &validate_only_);
    flags->AddString({"request_id", "ID",
                      "Submitting twice with the same id queues one job. Default: a fresh one."},
                     &request_id_);
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    if (wait_ && validate_only_)
      return UsageError("--wait and --validate_only exclude one another");
    ASSIGN_OR_RETURN(const v1::JobSpec spec, source_.Read(arguments[0]));
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    v1::SubmitJobRequest request;
    *request.mutable_spec() = spec;
    request.set_validate_only(validate_only_);
    request.set_await_daemons(wait_for_daemons_);
    if (!validate_only_) request.set_request_id(request_id_.empty() ? NewRequestId() : request_id_);
    ASSIGN_OR_RETURN(const v1::Job job, client->Submit(request));
    if (wait_) return Wait(job, environment, client.get());
    if (connection_.json()) {
      ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(job));
      environment.console->Out(absl::StrCat(json, "\n"));
    } else if (validate_only_) {
      environment.console->Out(absl::StrCat(arguments[0], " is a valid job\n"));
    } else {
      environment.console->Out(
          absl::StrCat("job ", job.id(), " (", JobTitle(job), ") is queued\n"));
    }
    return ExitCode::kSuccess;
  }

 private:
  absl::StatusOr<ExitCode> Wait(const v1::Job& job, const Environment& environment,
                                JobClient* client) const {
    environment.console->Err(absl::StrCat("job ", job.id(), " (", JobTitle(job), ") is queued\n"));
    FollowOptions options;
    options.progress_on_error_stream = true;
    ASSIGN_OR_RETURN(const v1::Job ended, FollowJob(job, options, environment, client));
    if (connection_.json()) {
      ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(ended));
      environment.console->Out(absl::StrCat(json, "\n"));
    } else {
      environment.console->Out(absl::StrCat(FinalLine(ended), "\n"));
    }
    return ExitCodeOf(ended);
  }

  JobSource source_;
  Connection connection_;
  bool wait_ = false;
  bool validate_only_ = false;
  bool wait_for_daemons_ = false;
  std::string request_id_;
};

}  // namespace

std::unique_ptr<Command> MakeSubmitCommand() { return std::make_unique<SubmitCommand>(); }

}  // namespace sangam
