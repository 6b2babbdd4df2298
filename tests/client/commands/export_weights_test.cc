#include "client/commands/export_weights.h"

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/files.h"
#include "gtest/gtest.h"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"
#include "tests/client/weights_job.h"

namespace sangam {
namespace {

TEST_F(CommandFixture, ExportWeightsTellsWhatItWrote) {
  FakeCoordinator server;
  server.SetPages({PageOfWeights(7)}, grpc::Status::OK);
  const std::string path = directory_ + "/w.safetensors";
  const auto exported =
      ExportWeights(JobWithWeights(7, server.address()), path, absl::Seconds(5), environment_);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(exported->Summary(), "1 tensor, 16 B, step 9");
  EXPECT_TRUE(ReadFile(path, 10'000).ok());
}

TEST_F(CommandFixture, ExportWeightsStopsWhenTheUserInterrupts) {
  FakeCoordinator server;
  server.StallAfterPages();
  interrupts_ = 1;
  const std::string path = directory_ + "/w.safetensors";
  EXPECT_EQ(ExportWeights(JobWithWeights(7, server.address()), path, absl::Hours(1), environment_)
                .status(),
            absl::CancelledError("interrupted"));
  EXPECT_FALSE(ReadFile(path, 10'000).ok());
}

}  // namespace
}  // namespace sangam
