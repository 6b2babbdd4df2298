#ifndef SANGAM_CLIENT_COMMANDS_CERTS_H_
#define SANGAM_CLIENT_COMMANDS_CERTS_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam certs init` and `sangam certs new ROLE [NAME]`.
std::unique_ptr<Command> MakeCertsCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_CERTS_H_
