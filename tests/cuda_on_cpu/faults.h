#ifndef TESTS_CUDA_ON_CPU_FAULTS_H_
#define TESTS_CUDA_ON_CPU_FAULTS_H_

namespace cuda_on_cpu {

// From now on a bad access by a kernel or to device memory is reported in their words (report.h);
// others go to whoever handled them before.
void InstallFaultHandler();

// Gives the calling thread a stack for the handler: those of fibers are small, and may be what
// overflowed.
void UseOwnSignalStack();

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_FAULTS_H_
