#ifndef SANGAM_CLIENT_COMMANDS_SUBMIT_H_
#define SANGAM_CLIENT_COMMANDS_SUBMIT_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam submit FILE`: queues a job.
std::unique_ptr<Command> MakeSubmitCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_SUBMIT_H_
