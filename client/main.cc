// The command-line client: `sangam --help`.

#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/commands/command.h"
#include "client/commands/command_list.h"
#include "client/console.h"
#include "client/interrupt.h"
#include "common/base/exit_code.h"
#include "common/rpc/grpc_log.h"

namespace {

// The directory of this program, wherever it was started from.
std::string ProgramDirectory() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return ".";
  const std::string program(path.data(), static_cast<size_t>(length));
  return program.substr(0, program.rfind('/'));
}

}  // namespace

int main(int argc, char** argv) {
  sangam::CatchInterrupts();
  sangam::RouteGrpcLog();
  const std::unique_ptr<sangam::Console> console = sangam::Console::Standard();
  sangam::Environment environment;
  environment.console = console.get();
  environment.interrupts = &sangam::Interrupts;
  environment.program_directory = ProgramDirectory();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.variables.emplace_back(*variable);
  }
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const sangam::ExitCode code = sangam::RunCommandLine(arguments, environment);
  // As shells count: 130 for Ctrl-C, 143 for SIGTERM.
  if (code == sangam::ExitCode::kInterrupted) return 128 + sangam::FirstInterrupt();
  return static_cast<int>(code);
}
