#ifndef SANGAM_CLIENT_COMMANDS_DOCTOR_H_
#define SANGAM_CLIENT_COMMANDS_DOCTOR_H_

#include <memory>

#include "client/commands/command.h"

namespace sangam {

// `sangam doctor [FILE]`.
std::unique_ptr<Command> MakeDoctorCommand();

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_DOCTOR_H_
