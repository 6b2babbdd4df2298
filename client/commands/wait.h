#ifndef SANGAM_CLIENT_COMMANDS_WAIT_H_
#define SANGAM_CLIENT_COMMANDS_WAIT_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam wait JOB`: waits until a job has come to a state.
std::unique_ptr<Command> MakeWaitCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_WAIT_H_
