#include "client/commands/logs.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/console.h"
#include "client/human_format.h"
#include "client/job_client.h"
#include "client/json_text.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

namespace sangam {
namespace {

constexpr uint64_t kMaxTail = 100000;

std::string TextOf(const v1::LogLine& line) {
  std::string text;
  if (line.dropped() != 0) {
    absl::StrAppend(&text, "(", line.dropped(), " earlier lines are no longer kept)\n");
  }
  absl::StrAppend(
      &text, absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", ToTime(line.time()), absl::UTCTimeZone()),
      " ", OneLine(line.daemon()), " ", OneLine(line.level()), " ", OneLine(line.text()), "\n");
  return text;
}

// Shows lines as they come, or keeps the last ones.
class Printer : public LogHandler {
 public:
  Printer(bool json, std::optional<uint64_t> keep, Console* console)
      : json_(json), keep_(keep), console_(*console) {}

  absl::Status OnEvent(const v1::LogLine& line) override {
    lost_ = false;
    revision_ = line.revision();
    if (!keep_.has_value()) return Show(line);
    kept_.push_back(line);
    if (kept_.size() > *keep_) kept_.pop_front();
    return absl::OkStatus();
  }
  void OnLost(const absl::Status& why) override {
    if (!lost_) {
      console_.Err(absl::StrCat("connection to the coordinator lost, trying again (",
                                OneLine(why.message()), ")\n"));
    }
    lost_ = true;
  }

  // Shows what was kept; keeps nothing from now on.
  absl::Status Flush() {
    for (const v1::LogLine& line : kept_) RETURN_IF_ERROR(Show(line));
    kept_.clear();
    keep_.reset();
    return absl::OkStatus();
  }
  uint64_t revision() const { return revision_; }

 private:
  absl::Status Show(const v1::LogLine& line) {
    if (!json_) {
      console_.Out(TextOf(line));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::string text, ToJsonLine(line));
    console_.Out(absl::StrCat(text, "\n"));
    return absl::OkStatus();
  }

  const bool json_;
  std::optional<uint64_t> keep_;
  Console& console_;
  std::deque<v1::LogLine> kept_;
  uint64_t revision_ = 0;
  bool lost_ = false;
};

class LogsCommand : public Command {
 public:
  CommandText text() const override {
    return {"logs",
            "JOB",
            "Show what the daemons logged about a job.",
            "JOB is a job's number, or its name: then the newest job of that name. The\n"
            "coordinator keeps the newest lines of each job. Times are UTC, of the daemon's\n"
            "clock. With --output=json each line is a line of JSON.\n",
            {"sangam logs 12", "sangam logs mnist -f", "sangam logs 12 --daemon=w0 --tail=20"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    flags->AddSwitch({"follow", "", "Go on with what comes, until the job has ended.", 'f'},
                     &follow_);
    flags->AddString({"daemon", "NAME", "Only of this worker or server, or of 'coordinator'."},
                     &daemon_);
    flags->AddOptionalCount(
        {"tail", "N", "Begin with the last N lines. Default: all that are kept."}, &tail_, 0,
        kMaxTail);
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, connection_.Connect(environment));
    // From here on by its number: a newer job may take the name.
    ASSIGN_OR_RETURN(const v1::Job job, client->Get(arguments[0]));
    Printer printer(connection_.json(), tail_, environment.console);
    v1::StreamLogsRequest request;
    request.set_job(absl::StrCat(job.id()));
    request.set_daemon(daemon_);
    if (tail_.has_value() || !follow_) {
      RETURN_IF_ERROR(client->Logs(request, &printer));
      RETURN_IF_ERROR(printer.Flush());
    }
    if (follow_) {
      request.set_follow(true);
      request.set_after_revision(printer.revision());
      RETURN_IF_ERROR(client->Logs(request, &printer));
    }
    return ExitCode::kSuccess;
  }

 private:
  Connection connection_;
  bool follow_ = false;
  std::string daemon_;
  std::optional<uint64_t> tail_;
};

}  // namespace

std::unique_ptr<Command> MakeLogsCommand() { return std::make_unique<LogsCommand>(); }

}  // namespace sangam
