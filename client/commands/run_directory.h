#ifndef SANGAM_CLIENT_COMMANDS_RUN_DIRECTORY_H_
#define SANGAM_CLIENT_COMMANDS_RUN_DIRECTORY_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

namespace sangam {

// What `sangam run` leaves behind. Not thread-safe.
//
//   model.safetensors  the trained weights, when the job succeeded
//   metrics.jsonl      one JSON object a line for each step and each evaluation
//   (client/json_text.h) job.json           the job as it ended logs/<daemon>.log  of each daemon
class RunDirectory {
 public:
  // Makes the directory. An earlier run in it is removed when `overwrite`; other files stay.
  // Errors: AlreadyExists  there is an earlier run and `overwrite` is false; others as the system
  // says
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Create(const std::string& path,
                                                              bool overwrite);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  std::string weights_path() const { return path_ + "/model.safetensors"; }
  // Of the coordinator.
  std::string state_path() const { return path_ + "/state"; }
  std::string logs_path() const { return path_ + "/logs"; }

  // Adds an event's line to metrics.jsonl, if it has one. Lines reach the file with Flush.
  absl::Status AddMetrics(const v1::JobEvent& event);
  absl::Status Flush();

  // Writes job.json.
  absl::Status WriteJob(const v1::Job& job);

  // Removes the logs.
  void RemoveLogs();

 private:
  RunDirectory(std::string path, int metrics_fd)
      : path_(std::move(path)), metrics_fd_(metrics_fd) {}

  const std::string path_;
  const int metrics_fd_;
  // Lines of metrics.jsonl that are not written yet.
  std::string pending_;
};

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_RUN_DIRECTORY_H_
