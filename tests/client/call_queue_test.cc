#include "client/call_queue.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>

#include <chrono>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

std::chrono::system_clock::time_point In(int milliseconds) {
  return std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds);
}

TEST(CallQueueTest, AsksWhileItWaits) {
  int asked = 0;
  CallQueue queue([&asked] {
    ++asked;
    return absl::OkStatus();
  });
  grpc::ClientContext context;
  grpc::Alarm alarm;
  alarm.Set(queue.queue(), In(300), nullptr);
  bool ok = false;
  EXPECT_TRUE(queue.Await(&context, &ok).ok());
  EXPECT_TRUE(ok);
  EXPECT_GE(asked, 1);
}

TEST(CallQueueTest, AnErrorStillWaitsForTheCompletion) {
  int asked = 0;
  CallQueue queue([&asked] {
    ++asked;
    return absl::CancelledError("enough");
  });
  grpc::ClientContext context;
  grpc::Alarm alarm;
  const auto until = In(300);
  alarm.Set(queue.queue(), until, nullptr);
  bool ok = false;
  EXPECT_EQ(queue.Await(&context, &ok), absl::CancelledError("enough"));
  EXPECT_GE(std::chrono::system_clock::now(), until);
  EXPECT_EQ(asked, 1);
}

TEST(CallQueueTest, ItsEndWaitsForWhatIsUnderWay) {
  grpc::Alarm alarm;
  CallQueue queue([] { return absl::OkStatus(); });
  alarm.Set(queue.queue(), In(3'600'000), nullptr);
  alarm.Cancel();
}

}  // namespace
}  // namespace sangam
