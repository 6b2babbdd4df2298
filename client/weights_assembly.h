#ifndef SANGAM_CLIENT_WEIGHTS_ASSEMBLY_H_
#define SANGAM_CLIENT_WEIGHTS_ASSEMBLY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/safetensors.h"
#include "proto/model.pb.h"
#include "proto/tensor.pb.h"

namespace sangam {

// Puts a job's weights together from the pages that its servers send, in any order. Pure and not
// thread-safe.
class WeightsAssembly {
 public:
  // Allocates all segments.
  // Errors: InvalidArgument  the layout contradicts itself: parameters that do not follow one
  // another
  //                          without gaps, a shape that does not fit its number of elements
  static absl::StatusOr<WeightsAssembly> Create(uint64_t job, const v1::ModelLayout& layout);

  // Takes in one page. `server` is where it came from, for messages.
  // Errors: InvalidArgument     not a page of weights of this job and layout, or elements that have
  //                             come before; names field, found and expected
  //         FailedPrecondition  a page of another step than the first one's
  absl::Status Add(const v1::TensorFrame& frame, absl::string_view server);

  // Errors: FailedPrecondition  elements are missing; names the first missing range of each segment
  absl::Status CheckComplete() const;

  // The step of the weights; nullopt before the first page.
  std::optional<uint64_t> step() const { return step_; }

  // Every parameter. Views into this object.
  std::vector<TensorView> Tensors() const;

 private:
  struct Segment {
    std::string bytes;
    // What has come: first element -> one past the last, disjoint.
    std::map<uint64_t, uint64_t> ranges;
  };

  WeightsAssembly(uint64_t job, const v1::ModelLayout& layout) : job_(job), layout_(layout) {}
  absl::Status CheckHeader(const v1::TensorFrame& frame) const;
  absl::Status CheckStep(uint64_t step, absl::string_view server);
  std::string NameOf(uint32_t segment) const;

  uint64_t job_;
  v1::ModelLayout layout_;
  std::vector<Segment> segments_;
  std::optional<uint64_t> step_;
  std::string step_server_;
};

}  // namespace sangam

#endif  // SANGAM_CLIENT_WEIGHTS_ASSEMBLY_H_
