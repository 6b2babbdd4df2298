#ifndef SANGAM_CLIENT_COMMANDS_CONFIG_H_
#define SANGAM_CLIENT_COMMANDS_CONFIG_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam config`: the values that verbs begin with, and where each comes from.
std::unique_ptr<Command> MakeConfigCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_CONFIG_H_
