#include "server/core/planner.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/check.h"
#include "common/model/model_layout.h"
#include "common/plan/batch_cut.h"
#include "common/plan/page_map.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "server/core/partition.h"

namespace sangam {
namespace {

void AddWorkers(const PlanRequest& request, const v1::JobSpec& spec, v1::Plan* plan) {
  const uint64_t count = request.workers.size();
  const uint64_t computing = std::min<uint64_t>(count, plan->shares());
  uint32_t next_part = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const IndexRange shares = EvenPart(plan->shares(), count, i);
    v1::WorkerPlan* worker = plan->add_worker();
    worker->set_name(request.workers[i].name);
    worker->set_incarnation(request.workers[i].incarnation);
    worker->mutable_shares()->set_begin(static_cast<uint32_t>(shares.begin));
    worker->mutable_shares()->set_end(static_cast<uint32_t>(shares.end));
    if (spec.evaluation().off() || shares.size() == 0) continue;
    worker->set_evaluation_part(next_part++);
    worker->set_evaluation_parts(static_cast<uint32_t>(computing));
  }
}

void AddPages(v1::Plan* plan) {
  std::vector<uint64_t> elements;
  for (const v1::SegmentLayout& segment : plan->layout().segment()) {
    elements.push_back(segment.element_count());
  }
  const auto placement =
      PlacePages(elements, plan->page_elements(), static_cast<uint32_t>(plan->server_size()));
  for (const std::vector<uint32_t>& servers : placement) {
    v1::SegmentPages* pages = plan->add_segment_pages();
    for (const uint32_t server : servers) pages->add_server(server);
  }
}

}  // namespace

v1::Plan MakePlan(const PlanRequest& request, const v1::JobSpec& spec,
                  const v1::ModelLayout& layout) {
  SANGAM_CHECK(!request.workers.empty() && !request.servers.empty());
  v1::Plan plan;
  plan.set_job(request.job);
  plan.set_generation(request.generation);
  plan.set_page_elements(kPageElements);
  plan.set_micro_batches(spec.batch().micro_batches());
  plan.set_shares(spec.batch().shares());
  plan.set_schema_hash(SchemaHash(spec, layout));
  *plan.mutable_layout() = layout;
  v1::StagePlan* stage = plan.add_stage();
  stage->set_block_count(static_cast<uint32_t>(layout.block_size()));
  for (const ChosenDaemon& chosen : request.servers) {
    v1::ServerPlan* server = plan.add_server();
    server->set_name(chosen.name);
    server->set_incarnation(chosen.incarnation);
    server->set_address(chosen.address);
  }
  AddWorkers(request, spec, &plan);
  AddPages(&plan);
  return plan;
}

uint64_t ServerElements(const v1::Plan& plan, uint32_t server) {
  uint64_t elements = 0;
  for (int s = 0; s < plan.segment_pages_size(); ++s) {
    const uint64_t count = plan.layout().segment(s).element_count();
    for (int p = 0; p < plan.segment_pages(s).server_size(); ++p) {
      if (plan.segment_pages(s).server(p) != server) continue;
      const uint64_t first = static_cast<uint64_t>(p) * plan.page_elements();
      elements += std::min(plan.page_elements(), count - first);
    }
  }
  return elements;
}

uint64_t TrainingBytesPerElement(const v1::OptimizerSpec& optimizer) {
  const uint64_t states = optimizer.has_adamw() ? 2 : optimizer.has_momentum() ? 1 : 0;
  return sizeof(float) * (2 + states);
}

}  // namespace sangam
