#ifndef SANGAM_CLIENT_COMMANDS_DELETE_H_
#define SANGAM_CLIENT_COMMANDS_DELETE_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam delete JOB`: forgets a job that has ended.
std::unique_ptr<Command> MakeDeleteCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_DELETE_H_
