#include "common/rpc/process_limits.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "common/base/log.h"

namespace sangam {

void LimitProcess(bool core_dumps) {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
      LogWarning("limit not set", "limit=nofile why=%s", LogValue(std::strerror(errno)));
    }
  }
  rlimit core = {};
  if (!core_dumps && getrlimit(RLIMIT_CORE, &core) == 0) {
    core.rlim_cur = 0;
    if (setrlimit(RLIMIT_CORE, &core) != 0) {
      LogWarning("limit not set", "limit=core why=%s", LogValue(std::strerror(errno)));
    }
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    LogWarning("limit not set", "limit=no_new_privs why=%s", LogValue(std::strerror(errno)));
  }
}

}  // namespace sangam
