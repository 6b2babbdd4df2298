#ifndef SANGAM_CLIENT_COMMANDS_TOKENS_H_
#define SANGAM_CLIENT_COMMANDS_TOKENS_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam tokens`: tokens for people and programs without a certificate.
std::unique_ptr<Command> MakeTokensCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_TOKENS_H_
