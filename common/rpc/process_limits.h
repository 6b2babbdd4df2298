#ifndef SANGAM_COMMON_RPC_PROCESS_LIMITS_H_
#define SANGAM_COMMON_RPC_PROCESS_LIMITS_H_

namespace sangam {

// What a daemon does to itself before it has threads: it may have as many open files as the system
// lets it, it and what it would start gain no rights from set-user-id programs, and unless
// `core_dumps` it writes no core file when it crashes: one would hold weights and keys. The hard
// limit of core files stays, so that prlimit(1) can allow one.
void LimitProcess(bool core_dumps);

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_PROCESS_LIMITS_H_
