#include "client/commands/resume.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/field_override.h"
#include "client/human_format.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

class ResumeCommand : public Command {
 public:
  CommandText text() const override {
    return {"resume",
            "JOB[/STEP]",
            "Queue a job that goes on from a checkpoint.",
            "JOB is a job's number or name; without STEP its newest checkpoint that is not\n"
            "damaged. The new job has the same specification; --set changes where and how\n"
            "long it runs (resources, strategy, epochs), but not what decides its result. It\n"
            "ends with the same weights as if the first job had never stopped.\n",
            {"sangam resume 12", "sangam resume 12/400 --set resources.workers=3",
             "sangam resume mnist --set epochs=20 --name=mnist-longer"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    flags->AddRepeated({"set", "PATH=VALUE", "Changes a field, as sangam submit does."},
                       &overrides_);
    flags->AddString({"name", "NAME", "Name of the new job. Default: the first one's."}, &name_);
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint, client->GetCheckpoint(arguments[0]));
    v1::SubmitJobRequest request;
    *request.mutable_spec() = checkpoint.spec();
    // As the user said it: of a job alone the coordinator takes the newest that is not damaged.
    request.mutable_spec()->set_resume_from(arguments[0]);
    if (!name_.empty()) request.mutable_spec()->set_name(name_);
    for (const std::string& assignment : overrides_) {
      const absl::Status status = ApplyOverride(assignment, request.mutable_spec());
      if (!status.ok()) return UsageError(WithContext(status, absl::StrCat("--set ", assignment)));
    }
    request.set_request_id(NewRequestId());
    ASSIGN_OR_RETURN(const v1::Job job, client->Submit(request));
    if (connection_.json()) {
      ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(job));
      environment.console->Out(absl::StrCat(json, "\n"));
    } else {
      environment.console->Out(absl::StrCat("job ", job.id(), " (", OneLine(job.spec().name()),
                                            ") goes on from ", OneLine(job.spec().resume_from()),
                                            "\n"));
    }
    return ExitCode::kSuccess;
  }

 private:
  std::vector<std::string> overrides_;
  std::string name_;
  Connection connection_;
};

}  // namespace

std::unique_ptr<Command> MakeResumeCommand() { return std::make_unique<ResumeCommand>(); }

}  // namespace sangam
