#include "client/commands/export.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/export_weights.h"
#include "client/job_client.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

class ExportCommand : public Command {
 public:
  CommandText text() const override {
    return {"export",
            "JOB",
            "Write a job's weights to a file.",
            "JOB is a job's number, or its name: then the newest job of that name. The file\n"
            "has the safetensors format; equal weights make equal files. Servers keep the\n"
            "weights of the last few jobs that ended well.\n",
            {"sangam export 12 --out=model.safetensors"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    flags->AddString({"out", "FILE", "The file to write; required."}, &out_);
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    if (out_.empty()) return UsageError("--out=FILE is required");
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    ASSIGN_OR_RETURN(const v1::Job job, client->Get(arguments[0]));
    ASSIGN_OR_RETURN(const ExportedWeights exported,
                     ExportWeights(job, out_, connection_.timeout(), environment));
    if (connection_.json()) {
      nlohmann::ordered_json summary;
      summary["job"] = job.id();
      summary["file"] = out_;
      summary["step"] = exported.step;
      summary["tensors"] = exported.tensors;
      summary["bytes"] = exported.bytes;
      const auto replace = nlohmann::ordered_json::error_handler_t::replace;
      environment.console->Out(absl::StrCat(summary.dump(2, ' ', false, replace), "\n"));
    } else {
      environment.console->Out(absl::StrCat(out_, ": ", exported.Summary(), "\n"));
    }
    return ExitCode::kSuccess;
  }

 private:
  Connection connection_;
  std::string out_;
};

}  // namespace

std::unique_ptr<Command> MakeExportCommand() { return std::make_unique<ExportCommand>(); }

}  // namespace sangam
