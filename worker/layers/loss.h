#ifndef SANGAM_WORKER_LAYERS_LOSS_H_
#define SANGAM_WORKER_LAYERS_LOSS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

namespace sangam {

// Sums over the samples of one micro-batch.
struct LossSums {
  // In double, summed row after row.
  double loss = 0;
  // Rows whose largest output (the first one of equals) is the label.
  uint64_t correct = 0;
};

// A loss over integer labels. Immutable; many lanes may share it.
class Loss {
 public:
  virtual ~Loss() = default;

  // Errors: InvalidArgument  unknown loss
  static absl::StatusOr<std::unique_ptr<Loss>> Create(const v1::LossSpec& spec);

  // outputs: [rows, classes]; labels: rows numbers in host memory, all < classes. When `gradient`
  // is not nullptr, writes the gradient of the loss *sum* with respect to the outputs to it (same
  // shape, the backend's memory). Waits for the result.
  // Errors: InvalidArgument  a label is out of range; names row, label and classes
  virtual absl::StatusOr<LossSums> Compute(Backend* backend, ConstMatrix outputs,
                                           const uint32_t* labels, Matrix* gradient) const = 0;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_LOSS_H_
