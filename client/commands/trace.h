#ifndef SANGAM_CLIENT_COMMANDS_TRACE_H_
#define SANGAM_CLIENT_COMMANDS_TRACE_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam trace JOB`: what the workers of a job did, as a file for a trace viewer.
std::unique_ptr<Command> MakeTraceCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_TRACE_H_
