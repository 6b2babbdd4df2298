#include "common/rpc/daemon_flags.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/flags/flags.h"

namespace sangam {

void DaemonFlags::AddFlags(const std::string& ready_line, FlagSet* flags) {
  FlagSet::Text level = {"log_level", "", "What is logged: events of this weight and above."};
  level.reloads = true;
  flags->AddChoice(level, {"debug", "info", "warning", "error"}, &log_level);
  flags->AddString(
      {"ready_file", "FILE", absl::StrCat("Is written with ", ready_line, " once it serves.")},
      &ready_file);
  flags->AddDuration(
      {"start_deadline", "TIME", "How long the coordinator may be out of reach at the start."},
      &start_deadline);
  flags->AddDuration({"drain_timeout", "TIME",
                      "How long it may take, after SIGTERM or SIGINT, to give away what it holds; "
                      "then it ends with what is left."},
                     &drain_timeout, absl::Milliseconds(1), absl::Hours(24));
  flags->AddSwitch({"core_dumps", "",
                    "May write a core file when it crashes. Such a file has weights in it, and "
                    "keys. Default: it may not."},
                   &core_dumps);
  flags->AddString({"config", "FILE",
                    "A file with values for these flags: 'name = value' a line, '#' begins a "
                    "comment. A flag of the command line goes before the environment variable "
                    "SANGAM_<NAME>, and that before the file."},
                   &config);
  FlagSet::Text print = {"print_config", "",
                         "Prints every value and where it comes from, in the form of such a file, "
                         "and ends."};
  print.command_line_only = true;
  flags->AddSwitch(print, &print_config);
  FlagSet::Text show = {"version", "", "Prints the version and ends."};
  show.command_line_only = true;
  flags->AddSwitch(show, &version);
  FlagSet::Text man = {"print_man", "", "Prints the manual page and ends."};
  man.command_line_only = true;
  man.hidden = true;
  flags->AddSwitch(man, &print_man);
}

}  // namespace sangam
