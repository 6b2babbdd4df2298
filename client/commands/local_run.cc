#include "client/commands/local_run.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/commands/export_weights.h"
#include "client/commands/follow.h"
#include "client/commands/run_directory.h"
#include "client/files.h"
#include "client/final_line.h"
#include "client/human_format.h"
#include "client/job_client.h"
#include "client/job_events.h"
#include "client/local_cluster.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

constexpr size_t kTailLines = 20;
// Servers on this machine answer soon or never.
constexpr absl::Duration kConnectDeadline = absl::Seconds(10);
// For the coordinator to take in that the user cancels.
constexpr absl::Duration kCancelTimeout = absl::Seconds(3);

std::string Plural(uint64_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

LocalCluster::Options WithRun(LocalCluster::Options options, const v1::JobSpec& spec,
                              const RunDirectory& directory, const Environment& environment) {
  options.log_directory = directory.logs_path();
  if (spec.has_checkpoint() || !spec.resume_from().empty()) {
    options.state_dir = directory.state_path();
  }
  options.check = [&environment] { return environment.CheckInterrupt(); };
  options.hurry = [&environment] { return environment.interrupts() > 1; };
  return options;
}

}  // namespace

LocalRun::LocalRun(Options options, RunDirectory* directory, const Environment& environment)
    : options_(std::move(options)),
      directory_(directory),
      environment_(environment),
      cluster_(WithRun(options_.cluster, options_.spec, *directory, environment)) {
  *job_.mutable_spec() = options_.spec;
}

void LocalRun::Say(const std::string& line) const {
  environment_.console->Err(absl::StrCat(line, "\n"));
}

ExitCode LocalRun::Run() {
  const absl::Status status = Train();
  const bool interrupted = !status.ok() && !environment_.CheckInterrupt().ok();
  std::string log;
  if (!status.ok()) {
    Abandon(status, interrupted);
    log = cluster_.failed_log();
    if (log.empty()) log = cluster_.LogNamedIn(status.message());
  } else if (job_.state() == v1::FAILED) {
    log = cluster_.LogNamedIn(job_.reason());
  }
  StopDaemons();
  // After the daemons have ended: their last lines tell most.
  if (!interrupted) ShowLog(log);

  absl::Status written = directory_->Flush();
  written.Update(directory_->WriteJob(job_));
  if (!written.ok()) Say(std::string(written.message()));
  const bool succeeded = job_.state() == v1::SUCCEEDED && written.ok();
  if (succeeded && !options_.keep_logs) {
    directory_->RemoveLogs();
  } else {
    Say(absl::StrCat("logs: ", directory_->logs_path()));
  }
  environment_.console->Out(absl::StrCat(FinalLine(job_), "\n"));
  if (interrupted) return ExitCode::kInterrupted;
  // Refused, and not failed later.
  const bool refused = absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
  if (refused && job_.id() == 0) return ExitCode::kUsage;
  return written.ok() ? ExitCodeOf(job_) : ExitCode::kFailure;
}

absl::Status LocalRun::Train() {
  Say(absl::StrCat("starting ", Plural(options_.cluster.servers, "server"), " and ",
                   Plural(options_.cluster.workers, "worker"), " with ",
                   Plural(options_.cluster.threads, "thread"), " each"));
  RETURN_IF_ERROR(cluster_.Start());

  JobClient::Options client_options;
  client_options.coordinator = cluster_.coordinator();
  client_options.clock = environment_.clock;
  client_options.check = [this] {
    RETURN_IF_ERROR(environment_.CheckInterrupt());
    return cluster_.Check();
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client,
                   JobClient::Create(std::move(client_options)));
  v1::SubmitJobRequest request;
  *request.mutable_spec() = options_.spec;
  request.set_request_id(NewRequestId());
  ASSIGN_OR_RETURN(job_, client->Submit(request));

  FollowOptions follow;
  follow.progress_on_error_stream = true;
  follow.on_event = [this](const v1::JobEvent& event) { return OnEvent(event); };
  follow.on_idle = [this] { return OnIdle(); };
  last_event_ = environment_.clock->Steady();
  ASSIGN_OR_RETURN(job_, FollowJob(job_, follow, environment_, client.get()));
  if (job_.state() != v1::SUCCEEDED) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ExportedWeights exported,
                   ExportWeights(job_, directory_->weights_path(), kConnectDeadline, environment_),
                   "the job succeeded, but its weights cannot be exported");
  Say(absl::StrCat(directory_->weights_path(), ": ", exported.Summary()));
  return absl::OkStatus();
}

absl::Status LocalRun::OnEvent(const v1::JobEvent& event) {
  last_event_ = environment_.clock->Steady();
  if (event.has_state() && event.state().state() == v1::PREEMPTED) {
    loss_ = Loss{event.state().reason(), last_event_};
  } else if (event.has_state() && event.state().state() == v1::STARTING) {
    loss_.reset();
  }
  ApplyEvent(event, &job_);
  return directory_->AddMetrics(event);
}

absl::Status LocalRun::OnIdle() {
  if (loss_.has_value() &&
      environment_.clock->Steady() - loss_->since > options_.come_back_timeout) {
    return absl::UnavailableError(loss_->why);
  }
  if (environment_.clock->Steady() - last_event_ > options_.stall_timeout) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the job gave no sign for ", HumanDuration(options_.stall_timeout), " (--stall_timeout)"));
  }
  return directory_->Flush();
}

void LocalRun::Abandon(const absl::Status& why, bool interrupted) {
  const std::string reason(why.message());
  if (!interrupted) {
    Say(Printable(reason));
    EndJob(v1::FAILED, reason);
    return;
  }
  Say(absl::StrCat(reason, "; stopping the daemons (Ctrl-C again kills them)"));
  CancelJob();
  // A job that had succeeded has no results here: its weights were not written.
  if (!HasEnded(job_.state()) || job_.state() == v1::SUCCEEDED) EndJob(v1::CANCELLED, reason);
}

void LocalRun::CancelJob() {
  if (job_.id() == 0) return;
  JobClient::Options options;
  options.coordinator = cluster_.coordinator();
  options.timeout = kCancelTimeout;
  options.clock = environment_.clock;
  options.check = [this] {
    if (environment_.interrupts() > 1) return absl::CancelledError("interrupted again");
    return cluster_.Check();
  };
  const absl::StatusOr<std::unique_ptr<JobClient>> client = JobClient::Create(std::move(options));
  if (!client.ok()) return;
  absl::StatusOr<v1::Job> job = (*client)->Cancel(absl::StrCat(job_.id()), "interrupted");
  // Without an answer the daemons are stopped all the same.
  if (job.ok()) job_ = *std::move(job);
}

void LocalRun::EndJob(v1::JobState state, const std::string& reason) {
  v1::StateChange& change = *job_.add_history();
  change.set_state(state);
  change.set_reason(reason);
  change.mutable_time()->set_seconds(absl::ToUnixSeconds(environment_.clock->Wall()));
  job_.set_state(state);
  job_.set_reason(reason);
}

void LocalRun::ShowLog(const std::string& log) const {
  if (log.empty()) return;
  const std::string tail = TailOfFile(log, kTailLines);
  if (tail.empty()) {
    Say(absl::StrCat(log, " is empty"));
    return;
  }
  Say(absl::StrCat("the end of ", log, ":\n  ", absl::StrReplaceAll(tail, {{"\n", "\n  "}})));
}

void LocalRun::StopDaemons() {
  for (const std::string& name : cluster_.Stop()) {
    Say(absl::StrCat(name, " did not end when asked and was killed"));
  }
}

}  // namespace sangam
