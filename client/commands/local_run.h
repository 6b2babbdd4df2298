#ifndef SANGAM_CLIENT_COMMANDS_LOCAL_RUN_H_
#define SANGAM_CLIENT_COMMANDS_LOCAL_RUN_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/commands/run_directory.h"
#include "client/local_cluster.h"
#include "proto/job.pb.h"

namespace sangam {

// One job on a cluster of its own: starts the daemons, submits, follows, exports, and stops all of
// it, whatever happens. Used once, not thread-safe.
class LocalRun {
 public:
  struct Options {
    v1::JobSpec spec;
    // `check`, `hurry` and `log_directory` are set by the run.
    LocalCluster::Options cluster;
    // A job that gives no sign for so long has failed.
    absl::Duration stall_timeout = absl::Minutes(10);
    // A job that has lost a daemon waits for it so long. One that was only silent comes back within
    // a lease or two, and nobody else can take over here.
    absl::Duration come_back_timeout = absl::Seconds(15);
    // Keep the daemons' logs also when the job has succeeded.
    bool keep_logs = false;
  };

  // `directory` and `environment` must outlive the run.
  LocalRun(Options options, RunDirectory* directory, const Environment& environment);

  // Does all of it and says on the console how it ended.
  ExitCode Run();

 private:
  // Until the weights are written; job_ is what is known of the job.
  absl::Status Train();
  absl::Status OnEvent(const v1::JobEvent& event);
  absl::Status OnIdle();
  // The job ends because of an error of ours or because the user wants it.
  void Abandon(const absl::Status& why, bool interrupted);
  void CancelJob();
  void EndJob(v1::JobState state, const std::string& reason);
  // Shows the end of a log; nothing when `log` is "".
  void ShowLog(const std::string& log) const;
  void StopDaemons();
  void Say(const std::string& line) const;

  const Options options_;
  RunDirectory* const directory_;
  const Environment& environment_;
  LocalCluster cluster_;
  v1::Job job_;
  absl::Duration last_event_;
  struct Loss {
    std::string why;
    absl::Duration since;
  };
  std::optional<Loss> loss_;  // of a daemon, since the job started last
};

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_LOCAL_RUN_H_
