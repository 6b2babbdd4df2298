#ifndef SANGAM_CLIENT_COMMANDS_PLAN_H_
#define SANGAM_CLIENT_COMMANDS_PLAN_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam plan FILE`: how a job would run, without running it.
std::unique_ptr<Command> MakePlanCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_PLAN_H_
