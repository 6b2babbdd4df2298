#include "tests/testing/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam::testing {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<Subprocess>> Subprocess::Start(const std::vector<std::string>& argv,
                                                              const std::string& output_path) {
  const int output = open(output_path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (output < 0) {
    return absl::InternalError(absl::StrCat(output_path, ": ", std::strerror(errno)));
  }
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // Only calls that are safe between fork and exec.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    const int input = open("/dev/null", O_RDONLY);
    dup2(input, 0);
    dup2(output, 1);
    dup2(output, 2);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(output);
  if (pid < 0) return absl::InternalError(absl::StrCat("fork: ", std::strerror(errno)));
  return std::unique_ptr<Subprocess>(new Subprocess(pid, argv[0], output_path));
}

Subprocess::Subprocess(pid_t pid, std::string name, std::string output_path)
    : pid_(pid), name_(std::move(name)), output_path_(std::move(output_path)) {}

Subprocess::~Subprocess() {
  if (!Running()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Subprocess::Signal(int signal) {
  if (Running()) kill(pid_, signal);
}

bool Subprocess::Running() {
  if (ended_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  ended_ = true;
  if (WIFEXITED(status)) end_.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end_.signal = WTERMSIG(status);
  return false;
}

absl::StatusOr<Subprocess::End> Subprocess::Wait(absl::Duration deadline) {
  const absl::Time until = absl::Now() + deadline;
  while (Running()) {
    if (absl::Now() >= until) {
      return absl::DeadlineExceededError(absl::StrCat(name_, " still runs after ",
                                                      absl::FormatDuration(deadline),
                                                      "; its output:\n", Output()));
    }
    absl::SleepFor(kPoll);
  }
  return end_;
}

std::string Subprocess::Output() const {
  const absl::StatusOr<std::string> output = ReadFile(output_path_);
  return output.ok() ? *output : "";
}

Finished RunCommand(const std::vector<std::string>& argv, absl::Duration deadline) {
  static std::atomic<int> counter{0};
  const std::string path = absl::StrCat(::testing::TempDir(), "/command.", counter++, ".out");
  Finished finished;
  absl::StatusOr<std::unique_ptr<Subprocess>> process = Subprocess::Start(argv, path);
  if (!process.ok()) {
    finished.output = process.status().ToString();
    return finished;
  }
  const absl::StatusOr<Subprocess::End> end = (*process)->Wait(deadline);
  if (end.ok()) finished.exit_code = end->exit_code;
  finished.output = end.ok() ? (*process)->Output() : end.status().ToString();
  return finished;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  ASSERT_TRUE(file.good()) << path;
}

std::string FreshFolder(const std::string& name) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

absl::StatusOr<std::string> AwaitFile(const std::string& path, absl::Duration deadline) {
  const absl::Time until = absl::Now() + deadline;
  while (true) {
    const absl::StatusOr<std::string> content = ReadFile(path);
    if (content.ok() && !content->empty()) return content;
    if (absl::Now() >= until) {
      return absl::DeadlineExceededError(
          absl::StrCat(path, " has not come within ", absl::FormatDuration(deadline)));
    }
    absl::SleepFor(kPoll);
  }
}

std::string Runfile(const std::string& path) {
  const char* root = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  if (root == nullptr || workspace == nullptr) return path;
  return absl::StrCat(root, "/", workspace, "/", path);
}

}  // namespace sangam::testing
