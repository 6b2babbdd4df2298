#include "tests/common/plan/plan_fixtures.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam::testing {

v1::ModelLayout ChainLayout(uint64_t input, const std::vector<BlockSizes>& blocks) {
  v1::ModelLayout layout;
  layout.set_terms_per_sample(1);
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    v1::BlockLayout* block = layout.add_block();
    block->set_name(absl::StrCat("b", b));
    block->add_input_shape(b == 0 ? input : blocks[b - 1].columns);
    block->add_output_shape(blocks[b].columns);
    block->set_forward_flops(blocks[b].flops);
    block->set_activation_bytes(blocks[b].activation_bytes);
    block->set_scratch_bytes(blocks[b].scratch_bytes);
    block->set_segment(-1);
    if (blocks[b].parameters == 0) continue;
    block->set_segment(layout.segment_size());
    v1::SegmentLayout* segment = layout.add_segment();
    segment->set_block(b);
    segment->set_element_count(blocks[b].parameters);
    segment->add_use(b);
    layout.set_parameter_count(layout.parameter_count() + blocks[b].parameters);
  }
  return layout;
}

void Tie(uint32_t block, v1::ModelLayout* layout) {
  layout->mutable_block(static_cast<int>(block))->set_tied_segment(0);
  layout->mutable_segment(0)->add_use(block);
}

v1::JobSpec JobOf(uint64_t batch, uint32_t micro_batches, uint32_t shares, v1::Strategy strategy) {
  v1::JobSpec spec;
  spec.mutable_batch()->set_size(batch);
  spec.mutable_batch()->set_micro_batches(micro_batches);
  spec.mutable_batch()->set_shares(shares);
  spec.set_strategy(strategy);
  return spec;
}

v1::ClusterFacts ClusterOf(uint32_t workers) {
  v1::ClusterFacts cluster;
  for (uint32_t w = 0; w < workers; ++w) {
    v1::WorkerFacts* worker = cluster.add_worker();
    worker->set_name(absl::StrCat("w-", w));
    worker->set_flops_per_second(1e9);
    worker->set_threads(1);
  }
  cluster.set_servers(1);
  cluster.set_link_bytes_per_second(1e9);
  return cluster;
}

std::vector<v1::WorkerPlan> WorkersOf(uint32_t workers) {
  std::vector<v1::WorkerPlan> plans(workers);
  for (uint32_t w = 0; w < workers; ++w) {
    plans[w].set_name(absl::StrCat("w-", w));
    plans[w].set_incarnation(10 + w);
    plans[w].set_address(absl::StrCat("h-", w, ":7"));
  }
  return plans;
}

std::vector<v1::StagePlan> StagesOf(const std::vector<uint32_t>& counts) {
  std::vector<v1::StagePlan> stages(counts.size());
  uint32_t first = 0;
  for (uint32_t s = 0; s < counts.size(); ++s) {
    stages[s].set_first_block(first);
    stages[s].set_block_count(counts[s]);
    first += counts[s];
  }
  return stages;
}

}  // namespace sangam::testing
