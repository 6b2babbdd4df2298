#include "client/commands/trace.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/files.h"
#include "client/job_client.h"
#include "client/trace_json.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

std::string Plural(uint64_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

// "120 events, 2 workers, steps 8..12".
std::string Summary(const v1::JobTrace& trace) {
  uint64_t events = 0;
  std::set<uint64_t> steps;
  for (const v1::WorkerTrace& worker : trace.worker()) {
    for (const v1::TraceReport& step : worker.step()) {
      steps.insert(step.step());
      events += static_cast<uint64_t>(step.event_size());
    }
  }
  std::string text =
      absl::StrCat(Plural(events, "event"), " of ",
                   Plural(static_cast<uint64_t>(trace.worker_size()), "worker"), ", ");
  if (steps.size() == 1) return absl::StrCat(text, "step ", *steps.begin());
  absl::StrAppend(&text, Plural(steps.size(), "step"));
  if (!steps.empty()) absl::StrAppend(&text, " (", *steps.begin(), " to ", *steps.rbegin(), ")");
  return text;
}

class TraceCommand : public Command {
 public:
  CommandText text() const override {
    return {"trace",
            "JOB",
            "Write what a job's workers did to a file for a trace viewer.",
            "JOB is a job's number, or its name: then the newest job of that name. Workers\n"
            "trace some of the steps. FILE has Chrome's trace event format (JSON): open it in\n"
            "https://ui.perfetto.dev or chrome://tracing. Each worker is a process, each of\n"
            "its lanes a thread: passes, links, pushes and waits, with their micro-batch.\n",
            {"sangam trace 12 -o trace.json", "sangam trace gpt --out=- | gzip > trace.json.gz"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    flags->AddString({"out", "FILE", "The file to write; - is the output. Required.", 'o'}, &out_);
    connection_.AddFlags(environment, flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    if (out_.empty()) return UsageError("--out=FILE (or -o FILE) is required");
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    ASSIGN_OR_RETURN(const v1::JobTrace trace, client->Trace(arguments[0]));
    // By its number: a newer job may have taken the name.
    ASSIGN_OR_RETURN(const v1::Job job, client->Get(absl::StrCat(trace.job())));
    const std::string json = ToChromeTrace(trace, job);
    if (out_ == "-") {
      environment.console->Out(json);
      return ExitCode::kSuccess;
    }
    RETURN_IF_ERROR(WriteFileAtomically(out_, json));
    environment.console->Out(absl::StrCat(out_, ": ", Summary(trace), "\n"));
    return ExitCode::kSuccess;
  }

 private:
  Connection connection_;
  std::string out_;
};

}  // namespace

std::unique_ptr<Command> MakeTraceCommand() { return std::make_unique<TraceCommand>(); }

}  // namespace sangam
