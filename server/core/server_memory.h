#ifndef SANGAM_SERVER_CORE_SERVER_MEMORY_H_
#define SANGAM_SERVER_CORE_SERVER_MEMORY_H_

#include <cstdint>
#include <map>
#include <string>

#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

// How many bytes a job takes on its servers. Gradients that wait to be merged are not counted:
// they come and go with the traffic.
namespace sangam {

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

#endif  // SANGAM_SERVER_CORE_SERVER_MEMORY_H_
