#ifndef SANGAM_SERVER_CORE_PLANNER_H_
#define SANGAM_SERVER_CORE_PLANNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan_shape.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {

// A daemon that a job is to run on.
struct ChosenDaemon {
  std::string name;
  uint64_t incarnation = 0;
  std::string address;  // "host:port": ParameterService of a server, PipelineService of a worker
};

struct PlanRequest {
  uint64_t job = 0;
  uint64_t generation = 0;
  std::vector<ChosenDaemon> workers;  // at least one
  std::vector<ChosenDaemon> servers;  // at least one
  // ShapeOf the forecast that was chosen for the same workers in the same order; by default data
  // parallel over all of them.
  PlanShape shape;
};

// Who computes what (SpreadJob) and who holds which page (PlacePages). Depends on the arguments
// alone.
// REQUIRES: `spec` has been checked and its defaults resolved, `layout` is its model's.
// Errors: InvalidArgument  the shape does not fit the workers, the shares or the layout
absl::StatusOr<v1::Plan> MakePlan(const PlanRequest& request, const v1::JobSpec& spec,
                                  const v1::ModelLayout& layout);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_PLANNER_H_
