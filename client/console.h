#ifndef SANGAM_CLIENT_CONSOLE_H_
#define SANGAM_CLIENT_CONSOLE_H_

#include <memory>

#include "absl/strings/string_view.h"

namespace sangam {

// Where the client writes: results to the output, all else to the error stream. Not thread-safe.
class Console {
 public:
  // The two streams of the process.
  static std::unique_ptr<Console> Standard();
  virtual ~Console() = default;

  virtual void Out(absl::string_view text) = 0;
  virtual void Err(absl::string_view text) = 0;

  virtual bool out_is_terminal() const = 0;
  virtual bool err_is_terminal() const = 0;
  // Columns of the terminal; 80 when there is none.
  virtual int width() const = 0;
  // Whether nobody reads the output any more (a closed pipe, a full disk).
  virtual bool broken() const = 0;
};

}  // namespace sangam

#endif  // SANGAM_CLIENT_CONSOLE_H_
