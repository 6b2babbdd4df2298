#ifndef SANGAM_WORKER_BACKEND_CPU_CPU_BACKEND_H_
#define SANGAM_WORKER_BACKEND_CPU_CPU_BACKEND_H_

#include <memory>
#include <string>

#include "worker/backend/backend.h"
#include "worker/backend/precision.h"

namespace sangam {

// Whether the CPU's backend multiplies by OrderedGemm, so that its rows stand alone: for binary32
// where it is no slower than oneDNN, which has kernels for AVX-512 too.
bool CpuOrdersProducts(Precision precision);

// The set of kernels that the CPU's backend multiplies with here: "AVX2", "SSE41". Two machines
// with the same one get the same bits.
std::string CpuKernelSet();

// The backend "cpu": matrix products by OrderedGemm or oneDNN, the rest by loops of our own. Its
// memory is the host's. All work is done on the calling thread before the call returns; the object
// may move from thread to thread. Makes the calling thread's OpenMP teams as large as one thread.
std::unique_ptr<Backend> CreateCpuBackend(Precision precision = Precision::kFp32);

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CPU_CPU_BACKEND_H_
