#ifndef SANGAM_TESTS_BENCH_MODEL_STEP_H_
#define SANGAM_TESTS_BENCH_MODEL_STEP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/model.pb.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/layers/block.h"
#include "worker/layers/loss.h"
#include "worker/layers/pass_context.h"

namespace sangam {

// For benchmarks: whatever goes wrong ends the program with the reason.
void CheckOk(const absl::Status& status);

template <typename T>
T ValueOf(absl::StatusOr<T> value) {
  CheckOk(value.status());
  return *std::move(value);
}

// What a worker computes of one micro-batch, without the worker: all blocks of a model on one
// backend, with made-up weights and samples in its memory.
class ModelStep {
 public:
  // Inputs are drawn from [0, largest_input), as whole numbers when the model begins with an
  // embedding.
  ModelStep(Backend* backend, const v1::ModelSpec& model, const v1::LossSpec& loss, int64_t rows,
            int64_t largest_input);

  // Asks for forward, loss and backward of one micro-batch; gradients accumulate. The backend may
  // still be at it when the call returns.
  void Run();

  int64_t parameters() const { return parameters_; }

 private:
  using Memory = std::unique_ptr<testing::DeviceMatrix>;

  BlockWeights WeightsOf(int block) const;
  BlockGradients GradientsOf(int block) const;

  Backend* backend_;
  v1::ModelLayout layout_;
  PassContext context_;
  Memory input_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<BlockScratch>> scratches_;
  std::vector<std::unique_ptr<BlockState>> states_;
  std::vector<Memory> weights_;         // by segment
  std::vector<Memory> gradients_;       // by block; nullptr where it has none of its own
  std::vector<Memory> tied_gradients_;  // the same
  std::unique_ptr<Loss> loss_;
  std::vector<uint32_t> labels_;
  Memory output_gradient_;
  int64_t parameters_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_TESTS_BENCH_MODEL_STEP_H_
