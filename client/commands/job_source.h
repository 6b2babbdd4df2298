#ifndef SANGAM_CLIENT_COMMANDS_JOB_SOURCE_H_
#define SANGAM_CLIENT_COMMANDS_JOB_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/flags/flags.h"
#include "proto/job.pb.h"

namespace sangam {

// A job file and what the command line changes of it.
class JobSource {
 public:
  // --set.
  void AddFlags(FlagSet* flags);
  // Errors: as ReadJobFile; InvalidArgument  a faulty --set (a usage error)
  absl::StatusOr<v1::JobSpec> Read(const std::string& path) const;

 private:
  std::vector<std::string> overrides_;
};

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_JOB_SOURCE_H_
