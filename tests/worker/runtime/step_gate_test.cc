#include "worker/runtime/step_gate.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

// A lane that goes through the steps from 0 on until it has passed `last`.
class Walker {
 public:
  Walker(StepGate* gate, uint64_t last)
      : thread_([this, gate, last] {
          for (uint64_t step = 0; step <= last; ++step) {
            gate->Pass(step);
            passed_ = step + 1;
          }
        }) {}
  ~Walker() { thread_.join(); }

  // Steps that it has passed, when it goes no further.
  uint64_t Standing() {
    uint64_t before = 0;
    do {
      before = passed_;
      absl::SleepFor(absl::Milliseconds(20));
    } while (before != passed_);
    return before;
  }

 private:
  std::atomic<uint64_t> passed_{0};
  std::thread thread_;
};

TEST(StepGateTest, NobodyBeginsTheStepThatIsStoppedAt) {
  StepGate gate;
  gate.SetStop(3);
  Walker walker(&gate, 9);
  EXPECT_EQ(walker.Standing(), 3u);
  gate.SetStop(5);
  EXPECT_EQ(walker.Standing(), 5u);
  gate.SetStop(std::nullopt);
  EXPECT_EQ(walker.Standing(), 10u);
}

TEST(StepGateTest, AnEndLetsEverybodyPassForGood) {
  StepGate gate;
  gate.SetStop(0);
  Walker one(&gate, 3);
  Walker other(&gate, 3);
  EXPECT_EQ(one.Standing(), 0u);
  gate.End();
  EXPECT_EQ(one.Standing(), 4u);
  EXPECT_EQ(other.Standing(), 4u);
  gate.SetStop(1);
  gate.Pass(2);
}

}  // namespace
}  // namespace sangam
