#include "tests/testing/device_matrix.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/base/philox.h"
#include "tests/testing/reference_ops.h"
#include "worker/backend/backend.h"
#include "worker/backend/shapes.h"

namespace sangam::testing {

std::vector<float> RandomFloats(int64_t count, uint64_t seed, float low, float high) {
  const RandomStream stream(seed, RandomPurpose::kInitialWeights, 0, 0);
  std::vector<float> values;
  values.reserve(static_cast<size_t>(count) + 3);
  for (uint64_t block = 0; values.size() < static_cast<size_t>(count); ++block) {
    for (const uint32_t bits : stream.Block(block)) {
      values.push_back(low + (high - low) * ToUnitFloat(bits));
    }
  }
  values.resize(static_cast<size_t>(count));
  return values;
}

Values ToDouble(const std::vector<float>& values) { return {values.begin(), values.end()}; }

absl::StatusOr<ClassificationSums> Sums(
    const absl::StatusOr<std::unique_ptr<PendingSums>>& pending) {
  if (!pending.ok()) return pending.status();
  return (*pending)->Get();
}

DeviceMatrix::DeviceMatrix(Backend* backend, int64_t rows, int64_t cols,
                           const std::vector<float>& values, int64_t offset)
    : backend_(backend) {
  auto memory = backend->Allocate(rows * cols + offset);
  SANGAM_CHECK(memory.ok());
  memory_ = *std::move(memory);
  view_ = {memory_->data() + offset, rows, cols};
  Write(values);
}

DeviceMatrix::DeviceMatrix(Backend* backend, int64_t rows, int64_t cols, int64_t offset)
    : DeviceMatrix(backend, rows, cols,
                   std::vector<float>(static_cast<size_t>(rows * cols), kUntouched), offset) {}

std::vector<float> DeviceMatrix::Read() const {
  std::vector<float> values(static_cast<size_t>(view_.size()));
  SANGAM_CHECK(backend_->Download(view_, values.data()).ok());
  SANGAM_CHECK(backend_->Synchronize().ok());
  return values;
}

void DeviceMatrix::Write(const std::vector<float>& values) {
  SANGAM_CHECK(static_cast<int64_t>(values.size()) == view_.size());
  SANGAM_CHECK(backend_->Upload(values.data(), view_).ok());
  SANGAM_CHECK(backend_->Synchronize().ok());
}

}  // namespace sangam::testing
