#ifndef SANGAM_COMMON_BASE_MACHINE_MEMORY_H_
#define SANGAM_COMMON_BASE_MACHINE_MEMORY_H_

#include <cstdint>
#include <string>

namespace sangam {

// Where the system tells about memory; another folder in tests.
struct MemorySources {
  std::string meminfo = "/proc/meminfo";
  std::string own_cgroups = "/proc/self/cgroup";
  std::string cgroup_root = "/sys/fs/cgroup";
};

// Bytes of memory that this process may use: the least limit of its control group and of those
// around it (version 2: memory.max; version 1: memory.limit_in_bytes), and never more than the
// machine has. 0: the system does not say.
uint64_t UsableMemoryBytes(const MemorySources& sources = {});

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_MACHINE_MEMORY_H_
