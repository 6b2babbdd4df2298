#include "client/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(InterruptTest, SignalsCountInsteadOfEndingTheProcess) {
  CatchInterrupts();
  EXPECT_EQ(Interrupts(), 0);
  EXPECT_EQ(FirstInterrupt(), 0);
  std::raise(SIGINT);
  EXPECT_EQ(Interrupts(), 1);
  std::raise(SIGTERM);
  std::raise(SIGHUP);
  EXPECT_EQ(Interrupts(), 3);
  EXPECT_EQ(FirstInterrupt(), SIGINT);
}

TEST(InterruptTest, AClosedPipeIsAnError) {
  CatchInterrupts();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  close(ends[1]);
}

}  // namespace
}  // namespace sangam
