#ifndef SANGAM_CLIENT_COMMANDS_RUN_H_
#define SANGAM_CLIENT_COMMANDS_RUN_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam run FILE`: a whole cluster on this machine, for one job.
std::unique_ptr<Command> MakeRunCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_RUN_H_
