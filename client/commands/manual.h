#ifndef SANGAM_CLIENT_COMMANDS_MANUAL_H_
#define SANGAM_CLIENT_COMMANDS_MANUAL_H_

#include <memory>
#include <string>
#include <vector>

#include "client/commands/command.h"

namespace sangam {

// The manual page sangam(1), with all verbs.
std::string Manual(const std::vector<std::unique_ptr<Command>>& commands,
                   const Environment& environment);

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_MANUAL_H_
