#include "client/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sangam {
namespace {

constexpr absl::Duration kPollPeriod = absl::Milliseconds(5);
constexpr absl::Duration kLongestKill = absl::Seconds(10);

// What the child needs, made before the fork: between fork and exec only calls that are safe in
// signal handlers are allowed, because other threads may have held locks.
struct Launch {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int input;
  int log;
  // Where the child writes errno when it cannot start the program; closed by a successful exec.
  int failure;
  pid_t parent;
};

[[noreturn]] void RunChild(const Launch& launch) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before the line above.
  if (getppid() != launch.parent) _exit(127);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(launch.input, STDIN_FILENO) >= 0 && dup2(launch.log, STDOUT_FILENO) >= 0 &&
      dup2(launch.log, STDERR_FILENO) >= 0) {
    execve(launch.program, launch.arguments, launch.environment);
  }
  const int error = errno;
  // The parent reads four bytes or the end of the pipe; nothing can be done when this fails.
  [[maybe_unused]] const ssize_t written = write(launch.failure, &error, sizeof(error));
  _exit(127);
}

// errno of a child that could not start the program, else 0.
int ReadFailure(int fd) {
  int error = 0;
  ssize_t count = 0;
  do {
    count = read(fd, &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof(error)) ? error : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::string& program, const std::vector<std::string>& arguments,
    const std::string& log_path) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "SANGAM_")) variables.push_back(*variable);
  }
  variables.push_back(nullptr);

  const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", log_path));
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int failure[2] = {-1, -1};
  const bool ready = input >= 0 && pipe2(failure, O_CLOEXEC) == 0;
  const pid_t parent = getpid();
  const pid_t pid = ready ? fork() : -1;
  if (pid == 0) {
    RunChild(
        Launch{program.c_str(), pointers.data(), variables.data(), input, log, failure[1], parent});
  }
  const int error = errno;
  for (const int fd : {log, input, failure[1]}) {
    if (fd >= 0) close(fd);
  }
  if (pid < 0) {
    if (failure[0] >= 0) close(failure[0]);
    return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", program));
  }
  std::unique_ptr<ChildProcess> child = absl::WrapUnique(new ChildProcess(pid));
  const int failed = ReadFailure(failure[0]);
  close(failure[0]);
  if (failed != 0) return absl::ErrnoToStatus(failed, absl::StrCat("cannot start ", program));
  return child;
}

ChildProcess::~ChildProcess() { Kill(); }

bool ChildProcess::Running() {
  if (ended_) return false;
  siginfo_t info{};
  // Looks without reaping: as long as the process is not reaped, its number and its group's cannot
  // belong to anybody else, so that the group can be killed safely.
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == 0) {
    return true;
  }
  kill(-pid_, SIGKILL);
  int wait_status = 0;
  while (waitpid(pid_, &wait_status, 0) < 0 && errno == EINTR) {
  }
  Reap(wait_status);
  return false;
}

void ChildProcess::Reap(int wait_status) {
  ended_ = true;
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    ending_ = absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
  } else {
    succeeded_ = WEXITSTATUS(wait_status) == 0;
    ending_ = absl::StrCat("exited with status ", WEXITSTATUS(wait_status));
  }
}

void ChildProcess::Signal(int signal) {
  if (Running()) kill(pid_, signal);
}

bool ChildProcess::WaitFor(absl::Duration deadline) {
  const absl::Time until = absl::Now() + deadline;
  while (Running()) {
    if (absl::Now() >= until) return false;
    absl::SleepFor(kPollPeriod);
  }
  return true;
}

void ChildProcess::Kill() {
  if (ended_) return;
  kill(-pid_, SIGKILL);
  // Before the child has made its group there is none.
  kill(pid_, SIGKILL);
  // Only a process that is stuck inside the system takes long; it will end when it comes out.
  WaitFor(kLongestKill);
}

}  // namespace sangam
