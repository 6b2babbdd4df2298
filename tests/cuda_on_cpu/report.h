#ifndef TESTS_CUDA_ON_CPU_REPORT_H_
#define TESTS_CUDA_ON_CPU_REPORT_H_

#include <cstddef>

namespace cuda_on_cpu {

// Where the calling thread is: the kernel (or the product of cuBLAS, the copy...) whose code it
// runs, or null.
extern __thread const char* running_operation;
// Whether threadIdx and blockIdx mean something.
extern __thread bool running_kernel;

// A fault of the code under test: says what and where on stderr, then aborts. There is no way back
// into a kernel.
[[noreturn]] void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// " in kernel Scale, block (0, 0, 0), thread (3, 0, 0)" or "", for a signal handler too.
void DescribePlace(char* text, size_t size);

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_REPORT_H_
