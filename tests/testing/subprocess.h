#ifndef SANGAM_TESTS_TESTING_SUBPROCESS_H_
#define SANGAM_TESTS_TESTING_SUBPROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace sangam::testing {

// A child process whose output goes to a file. The destructor kills it. Not thread-safe.
class Subprocess {
 public:
  // How a process ended: `exit_code` >= 0, or the signal that ended it.
  struct End {
    int exit_code = -1;
    int signal = 0;
  };

  // Starts `argv[0]` with standard input closed and standard output and error going to
  // `output_path`. The child dies with this process.
  static absl::StatusOr<std::unique_ptr<Subprocess>> Start(const std::vector<std::string>& argv,
                                                           const std::string& output_path);
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  // Sends a signal; nothing when the process has ended.
  void Signal(int signal);

  // Errors: DeadlineExceeded  it still runs; the message ends with its output
  absl::StatusOr<End> Wait(absl::Duration deadline);

  // Whether it still runs.
  bool Running();

  // What it has written so far.
  std::string Output() const;

  pid_t pid() const { return pid_; }

 private:
  Subprocess(pid_t pid, std::string name, std::string output_path);

  pid_t pid_;
  std::string name_;
  std::string output_path_;
  bool ended_ = false;
  End end_;
};

// A command's whole life.
struct Finished {
  int exit_code = -1;  // -1: ended by a signal or by the deadline
  std::string output;  // standard output and error together
};

// Runs a command to its end, at most for `deadline`; then it is killed.
Finished RunCommand(const std::vector<std::string>& argv, absl::Duration deadline);

// Whole content of a file.
// Errors: NotFound  it cannot be read
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes a file, replacing what was there; ends the test on failure.
void WriteFile(const std::string& path, const std::string& content);

// A fresh empty folder below the test's temporary folder.
std::string FreshFolder(const std::string& name);

// Waits until `path` exists and is not empty, and returns its content.
// Errors: DeadlineExceeded
absl::StatusOr<std::string> AwaitFile(const std::string& path, absl::Duration deadline);

// Path of a program or file of the workspace that the test lists in `data`, such as
// "client/sangam".
std::string Runfile(const std::string& path);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_SUBPROCESS_H_
