#ifndef SANGAM_CLIENT_COMMANDS_JOB_TABLES_H_
#define SANGAM_CLIENT_COMMANDS_JOB_TABLES_H_

#include <string>

#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

// What the commands show to people. Pure; `now` is wall-clock time.
namespace sangam {

// One job a line.
std::string FormatJobList(const v1::ListJobsResponse& jobs, absl::Time now);

// All that is known of one job. Times are shown in `zone`.
std::string FormatJob(const v1::Job& job, absl::Time now, absl::TimeZone zone);

// One daemon a line.
std::string FormatCluster(const v1::Cluster& cluster);

// "fashion-mnist-mlp", or the number of a job without a name.
std::string JobTitle(const v1::Job& job);

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_JOB_TABLES_H_
