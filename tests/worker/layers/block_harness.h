#ifndef SANGAM_TESTS_WORKER_LAYERS_BLOCK_HARNESS_H_
#define SANGAM_TESTS_WORKER_LAYERS_BLOCK_HARNESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/block.h"
#include "worker/layers/pass_context.h"

namespace sangam::testing {

// A model with a block under test, from a text such as
//   input_shape: 4 block { layer { linear { out_features: 3 } } layer { relu {} } }
struct TestModel {
  v1::ModelSpec spec;
  v1::ModelLayout layout;
  uint32_t block;

  explicit TestModel(const std::string& text, uint32_t block_under_test = 0);
  // nullptr: none.
  const v1::SegmentLayout* segment() const;
  const v1::SegmentLayout* tied_segment() const;
  int64_t input_size() const;
  int64_t output_size() const;
  int64_t parameter_count() const;
  int64_t tied_count() const;
  absl::StatusOr<std::unique_ptr<Block>> NewBlock() const;
};

// What a block gave for one micro-batch.
struct BlockResult {
  std::vector<float> y, dx, dw, dtied;
  bool operator==(const BlockResult& other) const {
    return y == other.y && dx == other.dx && dw == other.dw && dtied == other.dtied;
  }
};

// One lane with a block: a backend, scratch and a state.
class BlockLane {
 public:
  BlockLane(const Block& block, uint64_t max_rows, const std::vector<float>& weights,
            BackwardMode mode = BackwardMode::kWhole, const std::vector<float>& tied = {});

  PassContext context;
  bool accumulate = false;
  bool want_input_gradient = true;
  // What stands in the gradients of the weights before.
  std::vector<float> before;
  std::vector<float> tied_before;

  // Forward and backward, as the mode says. REQUIRES: at least one column.
  BlockResult Run(const std::vector<float>& x, int64_t input_size, const std::vector<float>& dy);

  Backend* backend() { return backend_.get(); }
  BlockScratch* scratch() { return scratch_.get(); }
  BlockState* state() { return state_.get(); }

 private:
  absl::StatusOr<ConstMatrix> Backward(ConstMatrix output_gradient, const BlockWeights& weights,
                                       const BlockGradients& gradients);

  const Block& block_;
  BackwardMode mode_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<BlockScratch> scratch_;
  std::unique_ptr<BlockState> state_;
  std::vector<float> weights_;
  std::vector<float> tied_;
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_LAYERS_BLOCK_HARNESS_H_
