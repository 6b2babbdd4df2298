#ifndef SANGAM_TESTS_WORKER_LAYERS_BLOCK_HARNESS_H_
#define SANGAM_TESTS_WORKER_LAYERS_BLOCK_HARNESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/model.pb.h"
#include "tests/testing/reference_ops.h"
#include "worker/backend/backend.h"
#include "worker/layers/block.h"

namespace sangam::testing {

// A model whose first block is under test, from a text such as
//   input_shape: 4 block { layer { linear { out_features: 3 } } layer { relu {} } }
struct TestModel {
  v1::ModelSpec spec;
  v1::ModelLayout layout;

  explicit TestModel(const std::string& text);
  const v1::SegmentLayout* segment() const;
  int64_t input_size() const;
  int64_t output_size() const;
  int64_t parameter_count() const;
  absl::StatusOr<std::unique_ptr<Block>> NewBlock(uint32_t first_layer = 0) const;
};

// The block by the reference operations; weights as in the segment.
Values ReferenceForward(const TestModel& model, uint32_t first_layer, const PassContext& context,
                        const Values& x, const Values& weights);

// What a block gave for one micro-batch.
struct BlockResult {
  std::vector<float> y, dx, dw;
  bool operator==(const BlockResult& other) const {
    return y == other.y && dx == other.dx && dw == other.dw;
  }
};

// One lane with a block: a backend and a state.
class BlockLane {
 public:
  BlockLane(const Block& block, uint64_t max_rows, const std::vector<float>& weights);

  PassContext context;
  bool accumulate = false;
  bool want_input_gradient = true;
  // What stands in the gradient of the weights before.
  std::vector<float> before;

  // Forward and backward. REQUIRES: at least one column.
  BlockResult Run(const std::vector<float>& x, int64_t input_size, const std::vector<float>& dy);

  Backend* backend() { return backend_.get(); }
  BlockState* state() { return state_.get(); }

 private:
  const Block& block_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<BlockState> state_;
  std::vector<float> weights_;
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_LAYERS_BLOCK_HARNESS_H_
