#ifndef SANGAM_CLIENT_FLAGS_H_
#define SANGAM_CLIENT_FLAGS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sangam {

// The flags of one verb. Each verb has its own set, so that its help shows what it takes and
// nothing else (Abseil's flags are global to a program). Not thread-safe.
//
//   --name=value, --name value; --name alone for switches; '-' and '_' in names are the same; for
//   flags with a letter -l value, -lvalue, -l=value; what follows "--" is never a flag.
//
// A target holds the default when it is added, and must outlive the set. Adding a name twice is a
// bug.
class FlagSet {
 public:
  // How a flag is shown: its name without dashes, what stands for its value, a sentence, and the
  // letter of its short form; 0: none. -h is taken.
  struct Text {
    std::string name;
    std::string value;
    std::string help;
    char letter = 0;
  };

  void AddString(const Text& text, std::string* target);
  // May be given several times; the values are kept in order.
  void AddRepeated(const Text& text, std::vector<std::string>* target);
  // A switch: --name, --name=true, --name=false. `text.value` is not used.
  void AddSwitch(const Text& text, bool* target);
  // A whole number in [minimum, maximum].
  void AddCount(const Text& text, uint64_t* target, uint64_t minimum,
                uint64_t maximum = std::numeric_limits<uint64_t>::max());
  // The same without a default of its own: the help says what holds when it is not given.
  void AddOptionalCount(const Text& text, std::optional<uint64_t>* target, uint64_t minimum,
                        uint64_t maximum = std::numeric_limits<uint64_t>::max());
  // As "30s", "1m30s", "250ms"; > 0 and finite. An infinite default is left to the help.
  void AddDuration(const Text& text, absl::Duration* target);
  // One of `choices`; `text.value` is not used.
  void AddChoice(const Text& text, const std::vector<std::string>& choices, std::string* target);

  // Sets the targets and returns the arguments that are not flags, in order. "--help" and "-h" only
  // set help_requested(); what stands beside them is still checked.
  // Errors: InvalidArgument  unknown flag (with the closest one), missing or malformed value
  absl::StatusOr<std::vector<std::string>> Parse(const std::vector<std::string>& arguments);

  bool help_requested() const { return help_requested_; }

  // One entry a flag, in the order of their addition, wrapped to 80 columns.
  std::string Help() const;

 private:
  struct Flag {
    Text text;
    std::string default_text;
    bool is_switch = false;
    std::function<absl::Status(absl::string_view)> set;
  };

  // A flag as it was given, with its value if that stands in the same argument.
  struct Given {
    const Flag* flag = nullptr;
    std::optional<absl::string_view> value;
  };

  void Add(const Text& text, std::string default_text, bool is_switch,
           std::function<absl::Status(absl::string_view)> set);
  absl::StatusOr<const Flag*> Find(absl::string_view name) const;
  // REQUIRES: `argument` has a dash and something behind it.
  absl::StatusOr<Given> Read(absl::string_view argument) const;

  std::vector<Flag> flags_;
  bool help_requested_ = false;
};

}  // namespace sangam

#endif  // SANGAM_CLIENT_FLAGS_H_
