#ifndef SANGAM_CLIENT_COMMANDS_LOGS_H_
#define SANGAM_CLIENT_COMMANDS_LOGS_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam logs JOB`: shows what the daemons logged about a job.
std::unique_ptr<Command> MakeLogsCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_LOGS_H_
