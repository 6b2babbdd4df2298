#include "client/commands/config.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "common/flags/flag_sources.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

class ConfigCommand : public Command {
 public:
  CommandText text() const override {
    return {"config",
            "",
            "Show the values of shared flags and where they come from.",
            "Flags of the command line go before environment variables (SANGAM_<NAME>, such\n"
            "as SANGAM_COORDINATOR), and these before the file of --config or SANGAM_CONFIG,\n"
            "which has a line 'name = value' for each; '#' begins a comment. The output is\n"
            "such a file.\n",
            {"sangam config", "SANGAM_CONFIG=cluster.conf sangam config > all.conf"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
    flags_ = flags;
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& /*arguments*/,
                               const Environment& environment) override {
    environment.console->Out(ConfigText(*flags_));
    return ExitCode::kSuccess;
  }

 private:
  Connection connection_;
  const FlagSet* flags_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> MakeConfigCommand() { return std::make_unique<ConfigCommand>(); }

}  // namespace sangam
