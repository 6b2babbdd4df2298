#ifndef SANGAM_CLIENT_COMMANDS_WATCH_H_
#define SANGAM_CLIENT_COMMANDS_WATCH_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam watch JOB`: follows a job to its end.
std::unique_ptr<Command> MakeWatchCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_WATCH_H_
