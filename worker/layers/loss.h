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

// A loss over labels: classes, or numbers (LabelKind). Immutable; many lanes may share it.
class Loss {
 public:
  virtual ~Loss() = default;

  // terms_per_sample: as in the model's layout.
  // Errors: InvalidArgument  unknown loss, or one without so many terms
  static absl::StatusOr<std::unique_ptr<Loss>> Create(const v1::LossSpec& spec,
                                                      uint64_t terms_per_sample);

  // outputs: [rows, terms_per_sample * classes], or [rows, terms_per_sample] where labels are
  // numbers; labels: rows * terms_per_sample words in host memory, those of a sample side by side,
  // each < classes or the bits of a float. When `gradient` is not nullptr, writes the gradient of
  // the loss *sum* with respect to the outputs to it (same shape, the backend's memory). The result
  // is summed over the micro-batch's terms: samples, their positions, or their outputs. Its
  // `correct` counts the terms whose largest output (the first one of equals) is the label; with
  // binary cross-entropy those on the target's side of one half; with mean squared error none.
  // Errors: InvalidArgument  shapes that do not fit; a label is out of range: names row (of a
  // term), label and classes
  virtual absl::StatusOr<std::unique_ptr<PendingSums>> Compute(Backend* backend,
                                                               ConstMatrix outputs,
                                                               const uint32_t* labels,
                                                               Matrix* gradient) const = 0;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_LOSS_H_
