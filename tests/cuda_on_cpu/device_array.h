#ifndef TESTS_CUDA_ON_CPU_DEVICE_ARRAY_H_
#define TESTS_CUDA_ON_CPU_DEVICE_ARRAY_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

namespace cuda_on_cpu {

// Device memory of a test.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) { cudaMalloc(&data_, size * sizeof(T)); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

  // After all that the default stream waits for.
  std::vector<T> Values() const {
    std::vector<T> values(size_);
    cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  size_t size_;
  T* data_ = nullptr;
};

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_DEVICE_ARRAY_H_
