#include "common/data/open_beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

namespace sangam {
namespace {

constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

}  // namespace

int OpenWithoutLinks(const std::string& path) {
  open_how how = {};
  how.flags = kFlags;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const auto descriptor =
      static_cast<int>(syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof(how)));
  // EPERM: a sandbox that does not know the call.
  if (descriptor >= 0 || (errno != ENOSYS && errno != EPERM)) return descriptor;
  return open_beneath_internal::OpenStepByStep(path);
}

namespace open_beneath_internal {

int OpenStepByStep(const std::string& path) {
  int folder = open(path.rfind('/', 0) == 0 ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (size_t begin = 0; folder >= 0;) {
    const size_t end = path.find('/', begin);
    const std::string part = path.substr(begin, end - begin);
    const bool last = end == std::string::npos;
    begin = end + 1;
    if (part.empty() && !last) continue;
    // O_NOFOLLOW with O_PATH would open a link itself; O_DIRECTORY refuses that.
    const int next =
        last ? openat(folder, part.empty() ? "." : part.c_str(), kFlags | O_NOFOLLOW)
             : openat(folder, part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int error = errno;
    close(folder);
    errno = error;
    if (last) return next;
    folder = next;
  }
  return -1;
}

}  // namespace open_beneath_internal
}  // namespace sangam
