#ifndef SANGAM_CLIENT_COMMANDS_CHECKPOINT_H_
#define SANGAM_CLIENT_COMMANDS_CHECKPOINT_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam checkpoint list [JOB]` and `sangam checkpoint verify JOB[/STEP]`.
std::unique_ptr<Command> MakeCheckpointCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_CHECKPOINT_H_
