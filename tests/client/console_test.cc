#include "client/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

// Puts another file in the place of a stream of this process, for a while.
class Redirected {
 public:
  Redirected(int stream, int fd) : stream_(stream), saved_(dup(stream)) { dup2(fd, stream); }
  ~Redirected() {
    dup2(saved_, stream_);
    close(saved_);
  }

 private:
  const int stream_;
  const int saved_;
};

TEST(ConsoleTest, WritesToTheTwoStreams) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/console_test");
  const int out = open((path + ".out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int err = open((path + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  {
    const Redirected redirected_out(STDOUT_FILENO, out);
    const Redirected redirected_err(STDERR_FILENO, err);
    const std::unique_ptr<Console> console = Console::Standard();
    console->Out("result");
    console->Err("notice");
    EXPECT_FALSE(console->out_is_terminal());
    EXPECT_FALSE(console->err_is_terminal());
    EXPECT_EQ(console->width(), 80);
    EXPECT_FALSE(console->broken());
  }
  close(out);
  close(err);
  EXPECT_EQ(*ReadFile(path + ".out", 100), "result");
  EXPECT_EQ(*ReadFile(path + ".err", 100), "notice");
}

TEST(ConsoleTest, NoticesThatNobodyReadsTheOutput) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const std::unique_ptr<Console> console = Console::Standard();
  bool after_err = true;
  {
    const Redirected redirected_err(STDERR_FILENO, ends[1]);
    console->Err("notice");
    after_err = console->broken();
  }
  EXPECT_FALSE(after_err);
  {
    const Redirected redirected_out(STDOUT_FILENO, ends[1]);
    console->Out("result");
  }
  EXPECT_TRUE(console->broken());
  close(ends[1]);
}

}  // namespace
}  // namespace sangam
