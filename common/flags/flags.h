#ifndef SANGAM_COMMON_FLAGS_FLAGS_H_
#define SANGAM_COMMON_FLAGS_FLAGS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sangam {

// Where a value comes from; what stands lower goes before what stands above.
enum class Origin { kDefault, kFile, kEnvironment, kCommandLine };

// The flags of a program or of one of its verbs: each verb has its own set, so that its help shows
// what it takes and nothing else. Not thread-safe.
//
//   --name=value, --name value; --name alone for switches; '-' and '_' in names are the same; for
//   flags with a letter -l value, -lvalue, -l=value; what follows "--" is never a flag.
//
// Values come from the command line (Parse) and from elsewhere (Set), in any order. A target holds
// the default when it is added, and must outlive the set. Adding a name twice is a bug.
class FlagSet {
 public:
  // How a flag is shown: its name without dashes, what stands for its value, a sentence, and the
  // letter of its short form; 0: none. -h is taken.
  struct Text {
    std::string name;
    std::string value;
    std::string help;
    char letter = 0;
    // Whether a daemon that runs takes a new value when it reads its configuration again.
    bool reloads = false;
    // Not from the environment and files: it asks for something instead of setting it.
    bool command_line_only = false;
    // Not in help and the like: for the build of the program's own pages.
    bool hidden = false;
  };

  // One entry of the table, with its value.
  struct Flag {
    Text text;
    std::string default_text;  // "": none, or one that the help explains
    bool is_switch = false;
    bool repeats = false;
    std::vector<std::string> choices;  // all it can be; empty: anything of its kind
    // As it was given, of repeated flags the last; "" as long as `origin` is kDefault.
    std::string given;
    Origin origin = Origin::kDefault;
    std::string place;  // "--name", "environment variable SANGAM_NAME", "file:line"
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
  // As "2GiB", "1500000"; see ParseBytes. What a default of 0 means is left to the help.
  void AddBytes(const Text& text, uint64_t* target);
  // A real number in [minimum, maximum].
  void AddReal(const Text& text, double* target, double minimum, double maximum);
  // As "30s", "1m30s", "250ms"; > 0, finite and in [minimum, maximum]. An infinite default is left
  // to the help.
  void AddDuration(const Text& text, absl::Duration* target,
                   absl::Duration minimum = absl::ZeroDuration(),
                   absl::Duration maximum = absl::InfiniteDuration());
  // One of `choices`; `text.value` is not used.
  void AddChoice(const Text& text, const std::vector<std::string>& choices, std::string* target);

  // Sets the targets and returns the arguments that are not flags, in order. "--help" and "-h" only
  // set help_requested(); what stands beside them is still checked.
  // Errors: InvalidArgument  unknown flag (with the closest one), missing or malformed value
  absl::StatusOr<std::vector<std::string>> Parse(const std::vector<std::string>& arguments);

  bool help_requested() const { return help_requested_; }

  // A value from elsewhere; `place` as in Flag. Nothing happens, not even a check of the value,
  // when the flag already has one from an origin that goes before. A repeated flag keeps the values
  // of one origin. Errors: InvalidArgument  unknown name (with the closest one), malformed value;
  // with the place
  absl::Status Set(absl::string_view name, absl::string_view value, Origin origin,
                   const std::string& place);

  // In a program with verbs: from now on only flags that `shared` has too, with the same words,
  // come from the environment and files; the others are for the command line only.
  void LimitSources(const FlagSet& shared);

  // In the order of their addition. nullptr: there is none of that name.
  const std::vector<Flag>& flags() const { return flags_; }
  const Flag* Find(absl::string_view name) const;

  // What each flag but those of the command line only has been given, or else its default text, by
  // name.
  using Values = std::map<std::string, std::string>;
  Values values() const;

  // The help with the default, in one paragraph.
  static std::string WholeHelp(const Flag& flag);

  // One entry a flag, in the order of their addition, wrapped to 80 columns.
  std::string Help() const;

 private:
  // Sets the target; `first`: it is the first value of its origin.
  using Setter = std::function<absl::Status(absl::string_view value, bool first)>;

  // A flag as it was given, with its value if that stands in the same argument.
  struct Given {
    size_t index = 0;
    std::optional<absl::string_view> value;
  };

  // Returns the new entry, until the next is added.
  Flag* Add(const Text& text, std::string default_text, Setter set);
  absl::StatusOr<size_t> IndexOf(absl::string_view name) const;
  absl::Status SetAt(size_t index, absl::string_view value, Origin origin,
                     const std::string& place);
  // REQUIRES: `argument` has a dash and something behind it.
  absl::StatusOr<Given> Read(absl::string_view argument) const;

  std::vector<Flag> flags_;
  std::vector<Setter> setters_;  // of flags_
  bool help_requested_ = false;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_FLAGS_FLAGS_H_
