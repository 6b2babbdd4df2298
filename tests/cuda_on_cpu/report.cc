#include "tests/cuda_on_cpu/report.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "tests/cuda_on_cpu/include/cuda_on_cpu/device.h"

namespace cuda_on_cpu {

__thread const char* running_operation = nullptr;
__thread bool running_kernel = false;

void DescribePlace(char* text, size_t size) {
  if (running_operation == nullptr) {
    text[0] = '\0';
  } else if (running_kernel) {
    std::snprintf(text, size, " in kernel %s, block (%u, %u, %u), thread (%u, %u, %u)",
                  running_operation, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y,
                  threadIdx.z);
  } else {
    std::snprintf(text, size, " in %s", running_operation);
  }
}

void Fail(const char* format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  char place[256];
  DescribePlace(place, sizeof place);
  std::fprintf(stderr, "CUDA on CPU: %s%s\n", message, place);
  std::fflush(stderr);
  std::abort();
}

}  // namespace cuda_on_cpu
