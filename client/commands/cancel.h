#ifndef SANGAM_CLIENT_COMMANDS_CANCEL_H_
#define SANGAM_CLIENT_COMMANDS_CANCEL_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam cancel JOB`: ends a job.
std::unique_ptr<Command> MakeCancelCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_CANCEL_H_
