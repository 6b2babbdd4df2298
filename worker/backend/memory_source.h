#ifndef SANGAM_WORKER_BACKEND_MEMORY_SOURCE_H_
#define SANGAM_WORKER_BACKEND_MEMORY_SOURCE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"

namespace sangam {

// Where memory comes from: a backend; or nowhere, when it is only counted. So one code can first
// find out how much it is going to need. What it refers to is borrowed.
class MemorySource {
 public:
  MemorySource(Backend* backend)  // NOLINT(google-explicit-constructor): it stands for its memory
      : backend_(backend) {}

  // Adds what Backend::Reserve has to be told to `elements`; the memory that it gives has no
  // address.
  static MemorySource Counting(int64_t* elements);

  // Errors: as Backend::Allocate; ResourceExhausted  the sum has no number
  absl::StatusOr<std::unique_ptr<BackendMemory>> Allocate(int64_t num_elements) const;

 private:
  MemorySource() = default;

  Backend* backend_ = nullptr;
  int64_t* elements_ = nullptr;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_MEMORY_SOURCE_H_
