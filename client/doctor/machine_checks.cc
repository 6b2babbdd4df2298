#include "client/doctor/machine_checks.h"

#include <dlfcn.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/files.h"
#include "client/human_format.h"

namespace sangam {
namespace {

// A stream for each peer, its connections, files and some reserve.
constexpr rlim_t kGoodDescriptors = 4096;
constexpr uint64_t kLeastFreeBytes = uint64_t{256} << 20;
constexpr size_t kSmallFile = 64 * 1024;

std::string Reason() { return std::strerror(errno); }

// Of a file that holds one number; nothing when there is none ("max").
bool ReadNumber(const std::string& path, uint64_t* number) {
  const absl::StatusOr<std::string> text = ReadFile(path, kSmallFile);
  return text.ok() && absl::SimpleAtoi(absl::StripSuffix(*text, "\n"), number);
}

// The least limit on the way from this process's cgroup to the top, version 2 or 1; the machine's
// memory when none is less.
uint64_t MemoryLimit() {
  struct sysinfo facts = {};
  uint64_t least = sysinfo(&facts) == 0 ? uint64_t{facts.totalram} * facts.mem_unit : 0;
  const auto consider = [&least](const std::string& file) {
    uint64_t limit = 0;
    if (ReadNumber(file, &limit) && (least == 0 || limit < least)) least = limit;
  };
  const absl::StatusOr<std::string> groups = ReadFile("/proc/self/cgroup", kSmallFile);
  if (!groups.ok()) return least;
  for (const absl::string_view line : absl::StrSplit(*groups, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool unified = parts[1].empty();
    if (!unified && parts[1] != "memory") continue;
    // Inside a container the path may be that of the host, and the top is what holds.
    std::string group = parts[2];
    while (true) {
      consider(unified ? absl::StrCat("/sys/fs/cgroup", group, "/memory.max")
                       : absl::StrCat("/sys/fs/cgroup/memory", group, "/memory.limit_in_bytes"));
      if (group.empty() || group == "/") break;
      group = group.substr(0, group.rfind('/'));
    }
  }
  return least;
}

}  // namespace

Finding CheckDescriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return {"file descriptors", Verdict::kSkipped, Reason(), ""};
  }
  const rlim_t most = limit.rlim_max;
  Finding finding{"file descriptors", Verdict::kGood,
                  absl::StrCat("a process may open ",
                               most == RLIM_INFINITY ? "any number of" : absl::StrCat(most),
                               " files and connections"),
                  ""};
  if (most != RLIM_INFINITY && most < kGoodDescriptors) {
    finding.verdict = Verdict::kFault;
    finding.fix = absl::StrCat("raise the hard limit to ", kGoodDescriptors,
                               " or more: LimitNOFILE= in the unit, ulimit -Hn in a shell");
  }
  return finding;
}

Finding CheckMemory(uint64_t needed_bytes) {
  const uint64_t limit = MemoryLimit();
  if (limit == 0) return {"memory", Verdict::kSkipped, "the limit cannot be read", ""};
  Finding finding{"memory", Verdict::kGood, absl::StrCat("limit ", HumanBytes(limit)), ""};
  if (needed_bytes == 0) return finding;
  absl::StrAppend(&finding.found, ", the job's largest daemon needs ", HumanBytes(needed_bytes));
  if (limit < needed_bytes) {
    finding.verdict = Verdict::kFault;
    finding.fix =
        "raise the container's memory limit, or spread the job over more servers and workers "
        "('sangam cluster size FILE')";
  }
  return finding;
}

Finding CheckStateDir(const std::string& path, uint64_t needed_bytes) {
  Finding finding{absl::StrCat("state_dir ", path), Verdict::kFault, "", ""};
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) {
    finding.found = absl::StrCat("cannot be reached: ", Reason());
    finding.fix = "make the folder, or mount the volume there";
    return finding;
  }
  if (!S_ISDIR(facts.st_mode)) {
    finding.found = "is no folder";
    finding.fix = "name a folder";
    return finding;
  }
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    finding.found = absl::StrCat("cannot be written by user ", geteuid(), ": ", Reason());
    finding.fix = absl::StrCat("chown it to the user of the daemon, in Kubernetes set fsGroup");
    return finding;
  }
  struct statvfs space = {};
  struct statfs kind = {};
  if (statvfs(path.c_str(), &space) != 0 || statfs(path.c_str(), &kind) != 0) {
    finding.found = absl::StrCat("cannot be looked at: ", Reason());
    return finding;
  }
  if ((space.f_flag & ST_RDONLY) != 0) {
    finding.found = "lies on a file system that is mounted read-only";
    finding.fix = "mount it for writing";
    return finding;
  }
  const uint64_t free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
  const uint64_t needed = std::max(needed_bytes, kLeastFreeBytes);
  finding.found = absl::StrCat(HumanBytes(free_bytes), " free, ", HumanBytes(needed), " needed");
  if (free_bytes < needed) {
    finding.fix = "make room, or keep fewer checkpoints (checkpoint.keep)";
    return finding;
  }
  if (kind.f_type == TMPFS_MAGIC) {
    finding.verdict = Verdict::kWarning;
    absl::StrAppend(&finding.found, ", in memory (tmpfs)");
    finding.fix = "jobs and checkpoints will not survive a restart of the machine: use a disk";
    return finding;
  }
  finding.verdict = Verdict::kGood;
  return finding;
}

Finding CheckDataRoot(const std::string& path) {
  Finding finding{absl::StrCat("data_root ", path), Verdict::kFault, "", ""};
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) {
    finding.found = absl::StrCat("cannot be reached: ", Reason());
    finding.fix = "install the data sets there, or mount the volume";
  } else if (!S_ISDIR(facts.st_mode)) {
    finding.found = "is no folder";
    finding.fix = "name the folder that the job's data paths begin in";
  } else if (access(path.c_str(), R_OK | X_OK) != 0) {
    finding.found = absl::StrCat("cannot be read by user ", geteuid(), ": ", Reason());
    finding.fix = "let the user of the daemon read it";
  } else {
    finding.verdict = Verdict::kGood;
    finding.found = "can be read";
  }
  return finding;
}

Finding CheckProxy(const std::vector<std::string>& set) {
  if (set.empty()) return {"proxy", Verdict::kGood, "the environment names none", ""};
  return {"proxy", Verdict::kWarning,
          absl::StrCat("the environment sets ", absl::StrJoin(set, ", ")),
          "Sangam does not use it; clients in other languages might: set no_proxy for the "
          "cluster's addresses"};
}

Finding CheckClockSource() {
  timex state = {};
  const int answer = adjtimex(&state);
  if (answer < 0) return {"clock", Verdict::kSkipped, Reason(), ""};
  if (answer != TIME_ERROR && (state.status & STA_UNSYNC) == 0) {
    return {"clock", Verdict::kGood, "is synchronised", ""};
  }
  return {"clock", Verdict::kWarning, "the kernel does not know it to be synchronised",
          "run chrony or systemd-timesyncd: certificates are good for a time"};
}

Finding CheckGpu(bool wanted, uint32_t device) {
  Finding finding{absl::StrCat("gpu ", device), wanted ? Verdict::kFault : Verdict::kSkipped, "",
                  ""};
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    finding.found = "no NVIDIA driver: libcuda.so.1 is not there";
    if (wanted) {
      finding.fix =
          "install the driver; in a container use the NVIDIA runtime, in Kubernetes ask for "
          "nvidia.com/gpu";
    }
    return finding;
  }
  // The driver's own interface: CUresult cuInit(unsigned), cuDriverGetVersion(int*),
  // cuDeviceGetCount(int*); 0 is success.
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto version = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int code = -1;
  int cuda = 0;
  int devices = 0;
  if (init == nullptr || version == nullptr || count == nullptr || (code = init(0)) != 0 ||
      (code = version(&cuda)) != 0 || (code = count(&devices)) != 0) {
    finding.found = absl::StrCat("the driver answers with error ", code);
    finding.fix = "nvidia-smi tells more; a driver older than its kernel module needs a reboot";
  } else if (static_cast<uint32_t>(devices) <= device) {
    finding.found = absl::StrCat("the driver shows ", devices, " devices, counted from 0");
    finding.fix = "see --device, CUDA_VISIBLE_DEVICES and what the container is given";
  } else {
    finding.verdict = Verdict::kGood;
    finding.found = absl::StrCat("driver for CUDA ", cuda / 1000, ".", cuda % 1000 / 10, ", ",
                                 devices, devices == 1 ? " device" : " devices");
  }
  dlclose(driver);
  return finding;
}

}  // namespace sangam
