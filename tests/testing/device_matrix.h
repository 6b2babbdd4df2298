#ifndef SANGAM_TESTS_TESTING_DEVICE_MATRIX_H_
#define SANGAM_TESTS_TESTING_DEVICE_MATRIX_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/testing/reference_ops.h"
#include "worker/backend/backend.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::testing {

// `count` numbers in [low, high), the same for the same seed.
std::vector<float> RandomFloats(int64_t count, uint64_t seed, float low = -1, float high = 1);

Values ToDouble(const std::vector<float>& values);

// What a loss gives, waited for.
absl::StatusOr<ClassificationSums> Sums(
    const absl::StatusOr<std::unique_ptr<PendingSums>>& pending);

// A matrix in a backend's memory, for tests. Whatever goes wrong ends the test program.
class DeviceMatrix {
 public:
  // `offset`: floats in front of the matrix, to try alignments.
  DeviceMatrix(Backend* backend, int64_t rows, int64_t cols, const std::vector<float>& values,
               int64_t offset = 0);
  // Filled with a number that no result has.
  DeviceMatrix(Backend* backend, int64_t rows, int64_t cols, int64_t offset = 0);

  Matrix view() const { return view_; }
  std::vector<float> Read() const;
  void Write(const std::vector<float>& values);

 private:
  Backend* backend_;
  std::unique_ptr<BackendMemory> memory_;
  Matrix view_;
};

// What DeviceMatrix is filled with.
constexpr float kUntouched = -12345.5f;

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_DEVICE_MATRIX_H_
