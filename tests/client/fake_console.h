#ifndef SANGAM_TESTS_CLIENT_FAKE_CONSOLE_H_
#define SANGAM_TESTS_CLIENT_FAKE_CONSOLE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "client/console.h"

namespace sangam {

// Keeps what is written.
class FakeConsole : public Console {
 public:
  void Out(absl::string_view text) override { out += std::string(text); }
  void Err(absl::string_view text) override { err += std::string(text); }
  bool out_is_terminal() const override { return terminal; }
  bool err_is_terminal() const override { return terminal; }
  int width() const override { return 80; }
  bool broken() const override { return is_broken; }

  std::string out;
  std::string err;
  bool terminal = false;
  bool is_broken = false;
};

}  // namespace sangam

#endif  // SANGAM_TESTS_CLIENT_FAKE_CONSOLE_H_
