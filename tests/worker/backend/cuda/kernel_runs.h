#ifndef SANGAM_TESTS_WORKER_BACKEND_CUDA_KERNEL_RUNS_H_
#define SANGAM_TESTS_WORKER_BACKEND_CUDA_KERNEL_RUNS_H_

#include <cstdint>
#include <functional>
#include <vector>

// What tests of kernels share; they run on the stand-in for CUDA.
namespace sangam::cuda_kernels {

// Bytes in the device's memory, as long as the object lives.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t size);
  ~DeviceBytes();
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// Floats in the device's memory, behind `offset` others, so that they need not be aligned.
class DeviceFloats {
 public:
  DeviceFloats(const std::vector<float>& values, int64_t offset);
  // Not initialised.
  DeviceFloats(int64_t size, int64_t offset);

  float* data() const { return static_cast<float*>(bytes_.data()) + offset_; }
  // Waits for all kernels. What lies in front must be untouched.
  std::vector<float> Read() const;

 private:
  size_t size_;
  int64_t offset_;
  DeviceBytes bytes_;
};

// What `run` gives, which must be the same bits in every order of threads and at every alignment:
// it puts its matrices behind `offset` floats.
std::vector<float> SameInAllRuns(const std::function<std::vector<float>(int64_t offset)>& run);

// |found - expected| <= tolerance * (1 + |expected|), or both NaN, everywhere.
void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected,
                float tolerance);

// Whole numbers in [-8, 8], whose sums are exact.
std::vector<float> WholeNumbers(int64_t count, uint64_t seed);

std::vector<float> Joined(std::vector<float> a, const std::vector<float>& b);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_TESTS_WORKER_BACKEND_CUDA_KERNEL_RUNS_H_
