#ifndef SANGAM_TESTS_WORKER_LAYERS_SIZE_BACKEND_H_
#define SANGAM_TESTS_WORKER_LAYERS_SIZE_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/testing/stub_backend.h"
#include "worker/backend/backend.h"

namespace sangam::testing {

// A backend that computes nothing and counts what it is asked to allocate.
class SizeBackend : public StubBackend {
 public:
  absl::string_view name() const override { return "size"; }

  uint64_t allocated_bytes() const { return allocated_bytes_; }

 protected:
  absl::StatusOr<std::unique_ptr<BackendMemory>> DoAllocate(int64_t num_elements) override {
    allocated_bytes_ += sizeof(float) * static_cast<uint64_t>(num_elements);
    return std::make_unique<Memory>(std::vector<float>(static_cast<size_t>(num_elements)));
  }
  absl::Status Answer() override { return absl::UnimplementedError("this backend only counts"); }

 private:
  class Memory : public BackendMemory {
   public:
    explicit Memory(std::vector<float> values)
        : BackendMemory(values.data(), static_cast<int64_t>(values.size())),
          values_(std::move(values)) {}

   private:
    std::vector<float> values_;
  };

  uint64_t allocated_bytes_ = 0;
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_LAYERS_SIZE_BACKEND_H_
