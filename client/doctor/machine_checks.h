#ifndef SANGAM_CLIENT_DOCTOR_MACHINE_CHECKS_H_
#define SANGAM_CLIENT_DOCTOR_MACHINE_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/doctor/finding.h"

// What `sangam doctor` sees of this machine alone.
namespace sangam {

// Descriptors that a process may open: a daemon needs some for each peer.
Finding CheckDescriptors();

// Memory that the cgroup or the machine has, against what a daemon needs; 0: not known.
Finding CheckMemory(uint64_t needed_bytes);

// The folder of the coordinator's state: exists, is writable, lies on a disk that keeps what it is
// given, with `needed_bytes` free.
Finding CheckStateDir(const std::string& path, uint64_t needed_bytes);

// The folder of data sets: exists and can be read.
Finding CheckDataRoot(const std::string& path);

// Names of environment variables that are set and would send the cluster's traffic through a proxy
// in other programs.
Finding CheckProxy(const std::vector<std::string>& set);

// Whether the kernel knows that the clock is synchronised. Certificates depend on it.
Finding CheckClockSource();

// The NVIDIA driver and the device with this number. `wanted`: whether its absence is a fault.
Finding CheckGpu(bool wanted, uint32_t device);

}  // namespace sangam

#endif  // SANGAM_CLIENT_DOCTOR_MACHINE_CHECKS_H_
