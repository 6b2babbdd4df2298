#include "client/commands/tokens.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/files.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"
#include "common/security/identity.h"
#include "common/security/token_table.h"

namespace sangam {
namespace {

class TokensCommand : public Command {
 public:
  CommandText text() const override {
    return {"tokens",
            "new",
            "Make a token in place of a client's certificate.",
            "`new` makes a token for one person or program. It prints the token, which is\n"
            "shown this once (or writes it to --out, readable by its owner alone), and the\n"
            "line that makes it known: add that to the coordinator's --tokens file, which\n"
            "holds no secret but must not be changed by others. The coordinator takes the\n"
            "changed file by itself; a line that is removed ends its token. The holder says\n"
            "--token_file=FILE and --tls_ca=ca.crt.\n",
            {"sangam tokens new --name=alice --out=alice.token >> tokens",
             "sangam tokens new --name=dashboard --role=viewer --expires=8760h"}};
  }

  void AddFlags(const Environment& /*environment*/, FlagSet* flags) override {
    flags->AddString({"name", "NAME", "Whose token it is: the owner of the jobs."}, &name_);
    flags->AddChoice({"role", "", "What the holder may do."}, {"client", "viewer", "admin"},
                     &role_);
    flags->AddDuration({"expires", "TIME", "How long it is good."}, &expires_);
    flags->AddString({"out", "FILE", "Where to write the token, in place of showing it."}, &out_);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    if (arguments[0] != "new") {
      return UsageError(absl::StrCat("found '", arguments[0], "', expected new"));
    }
    if (!IsIdentityName(name_)) {
      return UsageError("--name: expected 1 to 128 of letters, digits, '.', '_', '@' and '-'");
    }
    ASSIGN_OR_RETURN(const Role role, ParseRole(role_));
    ASSIGN_OR_RETURN(const NewToken made,
                     MakeToken({role, name_}, environment.clock->Wall() + expires_));
    if (!out_.empty()) {
      RETURN_IF_ERROR(WritePrivateFile(out_, absl::StrCat(made.token, "\n")));
      environment.console->Out(absl::StrCat(made.line, "\n"));
      return ExitCode::kSuccess;
    }
    environment.console->Out(
        absl::StrCat("Token (for --token_file; it is not shown again):\n", made.token,
                     "\nLine for the coordinator's --tokens file:\n", made.line, "\n"));
    return ExitCode::kSuccess;
  }

 private:
  std::string name_;
  std::string role_ = "client";
  absl::Duration expires_ = absl::Hours(24 * 90);
  std::string out_;
};

}  // namespace

std::unique_ptr<Command> MakeTokensCommand() { return std::make_unique<TokensCommand>(); }

}  // namespace sangam
