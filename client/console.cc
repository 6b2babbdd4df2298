#include "client/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "absl/strings/string_view.h"

namespace sangam {
namespace {

constexpr int kDefaultWidth = 80;

// Writes at once and unbuffered, so that the order of the two streams is kept.
class StandardConsole : public Console {
 public:
  StandardConsole()
      : out_is_terminal_(isatty(STDOUT_FILENO) != 0),
        err_is_terminal_(isatty(STDERR_FILENO) != 0) {}

  void Out(absl::string_view text) override { Write(STDOUT_FILENO, text); }
  // A lost error stream harms nobody.
  void Err(absl::string_view text) override {
    const bool broken = broken_;
    Write(STDERR_FILENO, text);
    broken_ = broken;
  }
  bool out_is_terminal() const override { return out_is_terminal_; }
  bool err_is_terminal() const override { return err_is_terminal_; }
  int width() const override {
    struct winsize size {};
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    }
    return kDefaultWidth;
  }
  bool broken() const override { return broken_; }

 private:
  void Write(int fd, absl::string_view text) {
    while (!text.empty()) {
      const ssize_t count = write(fd, text.data(), text.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        broken_ = true;
        return;
      }
      text.remove_prefix(static_cast<size_t>(count));
    }
  }

  const bool out_is_terminal_;
  const bool err_is_terminal_;
  bool broken_ = false;
};

}  // namespace

std::unique_ptr<Console> Console::Standard() { return std::make_unique<StandardConsole>(); }

}  // namespace sangam
