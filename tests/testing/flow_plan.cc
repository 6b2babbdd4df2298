#include "tests/testing/flow_plan.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/plan/batch_cut.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam::testing {

v1::Plan MakePlan(const FlowPlan& flow) {
  v1::Plan plan;
  plan.set_job(flow.job);
  plan.set_generation(flow.generation);
  plan.set_ranks(flow.ranks);
  plan.set_schedule(flow.chunks > 1 ? v1::INTERLEAVED : v1::ONE_F_ONE_B);
  plan.set_micro_batches(flow.micro_batches);
  plan.set_shares(flow.shares);
  plan.set_credits(flow.credits);
  plan.set_lanes(flow.lanes);
  plan.set_schema_hash(0x5a5a);
  for (uint32_t b = 0; b < flow.ranks * flow.chunks; ++b) {
    v1::StagePlan& stage = *plan.add_stage();
    stage.set_first_block(b);
    stage.set_block_count(1);
    v1::BlockLayout& block = *plan.mutable_layout()->add_block();
    block.set_segment(-1);
    if (b > 0)
      *block.mutable_input_shape() = plan.layout().block(static_cast<int>(b) - 1).output_shape();
    block.add_output_shape(flow.columns[std::min<size_t>(b, flow.columns.size() - 1)]);
  }
  for (const auto& [from, to] : flow.skips) {
    plan.mutable_layout()->mutable_block(static_cast<int>(to))->set_skip_from(from);
  }
  for (uint32_t w = 0; w < flow.ranks * flow.replicas; ++w) {
    const uint32_t pipeline = w / flow.ranks;
    v1::WorkerPlan& worker = *plan.add_worker();
    worker.set_name(absl::StrCat("w-", w));
    worker.set_incarnation(100 + w);
    worker.set_rank(w % flow.ranks);
    const IndexRange part = EvenPart(flow.shares, flow.replicas, pipeline);
    worker.mutable_shares()->set_begin(static_cast<uint32_t>(part.begin));
    worker.mutable_shares()->set_end(static_cast<uint32_t>(part.end));
    worker.set_evaluation_part(pipeline);
    worker.set_evaluation_parts(flow.replicas);
    if (w < flow.addresses.size()) worker.set_address(flow.addresses[w]);
  }
  return plan;
}

}  // namespace sangam::testing
