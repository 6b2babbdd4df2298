#ifndef SANGAM_CLIENT_COMMANDS_RESUME_H_
#define SANGAM_CLIENT_COMMANDS_RESUME_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam resume JOB[/STEP]`: queues a job that goes on from a checkpoint.
std::unique_ptr<Command> MakeResumeCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_RESUME_H_
