#ifndef SANGAM_CLIENT_COMMANDS_DESCRIBE_H_
#define SANGAM_CLIENT_COMMANDS_DESCRIBE_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam describe JOB`: all that is known of a job.
std::unique_ptr<Command> MakeDescribeCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_DESCRIBE_H_
