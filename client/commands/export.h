#ifndef SANGAM_CLIENT_COMMANDS_EXPORT_H_
#define SANGAM_CLIENT_COMMANDS_EXPORT_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam export JOB`: writes a job's weights to a file.
std::unique_ptr<Command> MakeExportCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_EXPORT_H_
