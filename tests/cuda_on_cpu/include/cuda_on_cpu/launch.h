#ifndef TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_LAUNCH_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_LAUNCH_H_

// What `kernel<<<grid, block, shared, stream>>>(arguments...)` is made of here.

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../cuda_runtime_api.h"
#include "../vector_types.h"

namespace cuda_on_cpu {

struct LaunchShape {
  const char* kernel;    // its name, for messages
  const void* function;  // its address
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// A pointer among the arguments of a kernel.
struct PointerArgument {
  int position;  // from 0
  const volatile void* value;
};

// Checks shape and pointers as the runtime does, then puts the kernel into its stream. Errors are
// returned and kept for cudaGetLastError. `body` is one thread of the kernel and keeps copies of
// the arguments.
cudaError_t Launch(const LaunchShape& shape, const std::vector<PointerArgument>& pointers,
                   std::function<void()> body);

template <typename T>
void CollectPointer(int position, const T& value, std::vector<PointerArgument>* pointers) {
  if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>) {
    pointers->push_back({position, value});
  } else {
    (void)position, (void)value, (void)pointers;
  }
}

template <typename Tuple, size_t... kPositions>
std::vector<PointerArgument> CollectPointers(const Tuple& arguments,
                                             std::index_sequence<kPositions...>) {
  std::vector<PointerArgument> pointers;
  (CollectPointer(static_cast<int>(kPositions), std::get<kPositions>(arguments), &pointers), ...);
  return pointers;
}

// Arguments are converted to the kernel's own types once, as a launch does, and copied for each
// thread.
template <typename... Params, typename... Args>
cudaError_t LaunchKernel(const char* name, void (*kernel)(Params...), dim3 grid, dim3 block,
                         size_t shared_bytes, cudaStream_t stream, Args&&... args) {
  static_assert(sizeof...(Params) == sizeof...(Args), "a kernel's arguments");
  std::tuple<std::decay_t<Params>...> values(static_cast<std::decay_t<Params>>(args)...);
  auto pointers = CollectPointers(values, std::index_sequence_for<Params...>());
  return Launch({name, reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, stream},
                pointers, [kernel, values]() { std::apply(kernel, values); });
}

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_LAUNCH_H_
