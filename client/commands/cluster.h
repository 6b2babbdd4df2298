#ifndef SANGAM_CLIENT_COMMANDS_CLUSTER_H_
#define SANGAM_CLIENT_COMMANDS_CLUSTER_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam cluster`: the daemons of a coordinator.
std::unique_ptr<Command> MakeClusterCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_CLUSTER_H_
