#ifndef SANGAM_TESTS_SERVER_CORE_CONTROL_FIXTURES_H_
#define SANGAM_TESTS_SERVER_CORE_CONTROL_FIXTURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

// Small jobs, daemons and reports for tests of the control plane.
namespace sangam::testing {

// A checked job with its defaults resolved: inputs of 4, hidden 8, 3 classes; batches of 8 samples
// in 4 micro-batches and shares; 2 epochs; evaluates at the end.
v1::JobSpec SmallJob(const std::string& name, uint32_t workers, uint32_t servers);

// The same with a third block between the two, spread over three workers w-1, w-2 and w-3 as a
// pipeline with one block each.
v1::JobSpec PipelineJob(const std::string& name);

v1::ModelLayout LayoutOf(const v1::JobSpec& spec);

// A plan of `spec` for workers w-1, w-2, ... and servers s-1, s-2, ..., all of incarnation 1: data
// parallel, or a pipeline of all workers with one block each when its strategy is MODEL_PARALLEL.
v1::Plan PlanOf(const v1::JobSpec& spec);

v1::DaemonIdentity Daemon(v1::DaemonRole role, const std::string& name, uint64_t incarnation = 1);
v1::RegisterRequest Registration(const v1::DaemonIdentity& daemon);

// The data has 20 training samples (batches of 8, 8 and 4), 5 test samples and 3 classes.
constexpr uint64_t kTrainSamples = 20;
constexpr uint64_t kStepsPerEpoch = 3;
constexpr uint64_t kStepsTotal = 6;
v1::JobReport Ready();
v1::JobReport Failed(int code, const std::string& message);
// Losses of a worker's shares at one step: share s of step t has the loss sum `loss` + s + 10 t.
v1::JobReport Step(const v1::WorkerPlan& worker, uint64_t step, double loss = 1);
// The worker's chunks of the evaluation at `step`: chunks of 2, 2 and 1 samples, each with one
// correct one and a loss sum of 0.5.
v1::JobReport Evaluated(const v1::WorkerPlan& worker, uint64_t step);
v1::JobReport Finished();

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_SERVER_CORE_CONTROL_FIXTURES_H_
