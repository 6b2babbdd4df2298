#ifndef SANGAM_CLIENT_JOB_CLIENT_H_
#define SANGAM_CLIENT_JOB_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "proto/admin_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

namespace sangam {

// Follows what becomes of a job; see JobClient::Watch and Logs.
template <typename Item>
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  // Called once for each event or line, in order. An error ends the stream and is returned by it.
  virtual absl::Status OnEvent(const Item& item) = 0;
  // Called some twenty times a second, whether something comes or not. An error as above.
  virtual absl::Status OnIdle() { return absl::OkStatus(); }
  // The coordinator is out of reach; the stream tries again. And: it is back.
  virtual void OnLost(const absl::Status& /*why*/) {}
  virtual void OnBack() {}
};
using WatchHandler = StreamHandler<v1::JobEvent>;
using LogHandler = StreamHandler<v1::LogLine>;

// The client's side of JobService. A call that finds no coordinator (UNAVAILABLE), or no answer in
// time, or that the coordinator broke off because its memory was used up, is repeated with backoff
// until `timeout` has passed; all calls may be repeated without harm. Not thread-safe.
//
// Errors of every call:
//   Unavailable        the coordinator cannot be reached; names its address, the tries and the time
//   DeadlineExceeded   it does not answer; likewise
//   others             as the service says, see proto/job_service.proto; as Options.check
class JobClient {
 public:
  struct Options {
    std::string coordinator;  // "host:port"
    // For all tries of one call.
    absl::Duration timeout = absl::Seconds(10);
    // For one try.
    absl::Duration call_deadline = absl::Seconds(5);
    // For one try of a call for which the coordinator may read a whole checkpoint: to verify it, or
    // to submit a job that goes on from one.
    absl::Duration reading_deadline = absl::Minutes(10);
    // For one stream of events. When it is over the next one begins where it ended, so that the
    // silent loss of a coordinator is noticed.
    absl::Duration stream_deadline = absl::Minutes(1);
    Backoff::Options backoff;
    // Asked some twenty times a second while waiting; an error ends the call and is returned.
    std::function<absl::Status()> check = [] { return absl::OkStatus(); };
    const Clock* clock = &Clock::Real();
  };

  // Connects when the first call is made.
  // Errors: InvalidArgument  the address is not "host:port"
  static absl::StatusOr<std::unique_ptr<JobClient>> Create(Options options);
  virtual ~JobClient() = default;

  // A request_id makes the call safe to repeat, also later: see NewRequestId.
  virtual absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request) = 0;

  // `job`: a number, or a name: the newest job of that name.
  virtual absl::StatusOr<v1::Job> Get(const std::string& job) = 0;
  virtual absl::StatusOr<v1::Job> Cancel(const std::string& job, const std::string& reason) = 0;

  virtual absl::Status Delete(const std::string& job) = 0;

  // Newest first; the newest `limit` jobs in one of the states, or all when it is 0. No states: in
  // any.
  virtual absl::StatusOr<v1::ListJobsResponse> List(uint64_t limit,
                                                    const std::vector<v1::JobState>& states) = 0;

  virtual absl::StatusOr<v1::Cluster> GetCluster() = 0;
  // AdminService's.
  virtual absl::StatusOr<v1::DrainDaemonResponse> DrainDaemon(
      const v1::DrainDaemonRequest& request) = 0;

  // What would become of a job, without running it.
  virtual absl::StatusOr<v1::PlanReport> Plan(const v1::JobSpec& spec) = 0;

  // What the workers did; `job` as in Get.
  virtual absl::StatusOr<v1::JobTrace> Trace(const std::string& job) = 0;

  // `job`: as in Get; empty: of all jobs.
  virtual absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const std::string& job) = 0;
  // `checkpoint`: "JOB" or "JOB/STEP".
  virtual absl::StatusOr<v1::Checkpoint> VerifyCheckpoint(const std::string& checkpoint) = 0;
  virtual absl::StatusOr<v1::Checkpoint> GetCheckpoint(const std::string& checkpoint) = 0;

  // Hands every event after `after_revision` to `handler`, until the job has ended. Goes on where
  // it was when the connection is lost, or the coordinator has broken the stream off; `timeout`
  // bounds how long the coordinator may be out of reach.
  virtual absl::Status Watch(uint64_t job, uint64_t after_revision, WatchHandler* handler) = 0;

  // Hands the lines that the request asks for to `handler`, as Watch. The request's job is a
  // number.
  virtual absl::Status Logs(const v1::StreamLogsRequest& request, LogHandler* handler) = 0;
};

// A fresh id for JobClient::Submit: 128 random bits from the system, in hexadecimal.
std::string NewRequestId();

}  // namespace sangam

#endif  // SANGAM_CLIENT_JOB_CLIENT_H_
