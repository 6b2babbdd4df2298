#ifndef SANGAM_COMMON_PLAN_SERVER_MEMORY_H_
#define SANGAM_COMMON_PLAN_SERVER_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

// How many bytes a job takes on its servers. Gradients that wait to be merged are not counted:
// they come and go with the traffic.
namespace sangam {

// Steps of such a job whose state checkpoints may ask for at once, at most: so many copies of it a
// server may have to hold. The copy for which a job stops that has no others is not among them: it
// is made when the job stands (server/core/checkpoint_policy.h), and then it is the page itself.
size_t SnapshotsAtOnce(const v1::CheckpointSpec& spec);
size_t SnapshotsAtOnce(const v1::JobSpec& spec);

// Elements of all pages on one server of the plan.
// REQUIRES: server < plan.server_size().
uint64_t ServerElements(const v1::Plan& plan, uint32_t server);

// Bytes that a server needs for each element while it trains: two versions of the weight and the
// optimizer's state, and SnapshotsAtOnce copies of weight and state.
// Gradients that wait to be merged come on top.
uint64_t TrainingBytesPerElement(const v1::JobSpec& spec);

// The same for a job in phase HOLD.
inline constexpr uint64_t kHoldBytesPerElement = sizeof(float);

using ServerBytes = std::map<std::string, uint64_t>;  // by name

// Of the training state, on the one of the job's servers that gets most of it.
// REQUIRES: `spec` has been checked and its defaults resolved, `layout` is its model's.
uint64_t LargestServerBytes(const v1::JobSpec& spec, const v1::ModelLayout& layout);

// Of the training state, on each server of the plan.
ServerBytes TrainingBytes(const v1::Plan& plan, const v1::JobSpec& spec);

// Of the weights alone, when the job has ended.
ServerBytes KeptBytes(const v1::Plan& plan);

uint64_t TotalOf(const ServerBytes& bytes);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_SERVER_MEMORY_H_
