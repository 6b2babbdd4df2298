#include "common/rpc/daemon_process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

constexpr size_t kLongestHostPart = 100;

absl::Status WriteWhole(const std::string& path, absl::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  absl::Status status;
  while (!text.empty() && status.ok()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      status = absl::ErrnoToStatus(errno, path);
    }
  }
  if (close(fd) != 0 && status.ok()) status = absl::ErrnoToStatus(errno, path);
  return status;
}

}  // namespace

std::string DefaultDaemonName() {
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't'};
  std::string name(absl::string_view(host.data()).substr(0, kLongestHostPart));
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '-';
  }
  return absl::StrCat(name, "-", getpid());
}

uint64_t NewIncarnation() {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixNanos(Clock::Real().Wall()), 1));
}

absl::Status WriteReadyFile(const std::string& path, absl::string_view line) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  RETURN_IF_ERROR(WriteWhole(temporary, absl::StrCat(line, "\n")));
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    absl::Status status = absl::ErrnoToStatus(errno, path);
    unlink(temporary.c_str());
    return status;
  }
  return absl::OkStatus();
}

ShutdownSignal::ShutdownSignal() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGHUP);
  sigaddset(&signals_, SIGUSR1);
  SANGAM_CHECK(pthread_sigmask(SIG_BLOCK, &signals_, &signals_before_) == 0);
  signal(SIGPIPE, SIG_IGN);
  wake_fd_ = eventfd(0, EFD_CLOEXEC);
  SANGAM_CHECK(wake_fd_ >= 0);
  watcher_ = std::thread([this] { Watch(); });
}

ShutdownSignal::~ShutdownSignal() {
  const uint64_t one = 1;
  SANGAM_CHECK(write(wake_fd_, &one, sizeof(one)) == sizeof(one));
  watcher_.join();
  close(wake_fd_);
  pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

bool ShutdownSignal::WaitFor(absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real().Steady() + timeout;
  MutexLock lock(&mutex_);
  for (;;) {
    const absl::Duration left = deadline - Clock::Real().Steady();
    if (requested() || reload_.load() || describe_.load()) return requested();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitFor(&mutex_, left);
  }
}

void ShutdownSignal::WaitForMore(absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real().Steady() + timeout;
  MutexLock lock(&mutex_);
  while (!reload_.load() && !describe_.load()) {
    const absl::Duration left = deadline - Clock::Real().Steady();
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitFor(&mutex_, left);
  }
}

void ShutdownSignal::Take(int number) {
  MutexLock lock(&mutex_);
  if (number == SIGHUP) {
    reload_.store(true);
  } else if (number == SIGUSR1) {
    describe_.store(true);
  } else {
    if (requested()) _exit(128 + number);
    signal_.store(number);
    requested_.store(true);
  }
  changed_.SignalAll();
}

void ShutdownSignal::Watch() {
  const int signal_fd = signalfd(-1, &signals_, SFD_CLOEXEC);
  SANGAM_CHECK(signal_fd >= 0);
  std::array<pollfd, 2> fds = {pollfd{signal_fd, POLLIN, 0}, pollfd{wake_fd_, POLLIN, 0}};
  for (;;) {
    if (poll(fds.data(), fds.size(), -1) < 0) continue;  // Interrupted.
    if (fds[1].revents != 0) break;
    signalfd_siginfo received = {};
    if (read(signal_fd, &received, sizeof(received)) != sizeof(received)) continue;
    Take(static_cast<int>(received.ssi_signo));
  }
  close(signal_fd);
}

}  // namespace sangam
