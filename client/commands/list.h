#ifndef SANGAM_CLIENT_COMMANDS_LIST_H_
#define SANGAM_CLIENT_COMMANDS_LIST_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam list`: the jobs of a coordinator.
std::unique_ptr<Command> MakeListCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_LIST_H_
