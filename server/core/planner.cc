#include "server/core/planner.h"

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/model_layout.h"
#include "common/plan/page_map.h"
#include "common/plan/partition.h"
#include "common/plan/plan_shape.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

std::vector<v1::WorkerPlan> Workers(const std::vector<ChosenDaemon>& chosen) {
  std::vector<v1::WorkerPlan> workers;
  for (const ChosenDaemon& daemon : chosen) {
    v1::WorkerPlan& worker = workers.emplace_back();
    worker.set_name(daemon.name);
    worker.set_incarnation(daemon.incarnation);
    worker.set_address(daemon.address);
  }
  return workers;
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

absl::StatusOr<v1::Plan> MakePlan(const PlanRequest& request, const v1::JobSpec& spec,
                                  const v1::ModelLayout& layout) {
  SANGAM_CHECK(!request.workers.empty() && !request.servers.empty());
  ASSIGN_OR_RETURN(v1::Plan plan, SpreadJob(request.shape, Workers(request.workers), spec, layout));
  plan.set_job(request.job);
  plan.set_generation(request.generation);
  plan.set_page_elements(PageElementsOf(layout));
  plan.set_schema_hash(SchemaHash(spec, layout));
  for (const ChosenDaemon& chosen : request.servers) {
    v1::ServerPlan* server = plan.add_server();
    server->set_name(chosen.name);
    server->set_incarnation(chosen.incarnation);
    server->set_address(chosen.address);
  }
  AddPages(&plan);
  return plan;
}

}  // namespace sangam
