#ifndef SANGAM_CLIENT_COMMANDS_PLAN_TABLES_H_
#define SANGAM_CLIENT_COMMANDS_PLAN_TABLES_H_

#include <string>

#include "proto/forecast.pb.h"
#include "proto/job.pb.h"

// Plans as people read them: in lines of at most 100 columns, longer words excepted. Pure.
namespace sangam {

// The strategies side by side, what there is to say of each, which one is chosen and why, and its
// stages.
std::string FormatPlan(const v1::PlanReport& report);

// The stages of a running job under their titles.
std::string FormatStages(const v1::Job& job);

// "MODEL_PARALLEL"; a number for one that this program does not know.
std::string StrategyName(v1::Strategy strategy);
std::string ScheduleName(v1::Schedule schedule);

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_PLAN_TABLES_H_
