#include "common/rpc/call_registry.h"

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

class NotingCall : public ServedCall {
 public:
  void End(const absl::Status& error) override { ends.push_back(error); }
  void Check(absl::Duration now) override { checks.push_back(now); }

  std::vector<absl::Status> ends;
  std::vector<absl::Duration> checks;
};

class CallRegistryTest : public ::testing::Test {
 protected:
  std::shared_ptr<NotingCall> Added() {
    auto call = std::make_shared<NotingCall>();
    EXPECT_TRUE(registry_.Add(call).ok());
    return call;
  }

  CallRegistry registry_{3};
};

TEST_F(CallRegistryTest, CallsAreBoundedAndARefusedOneCountsUntilItIsRemoved) {
  const auto first = Added();
  Added();
  Added();
  const auto refused = std::make_shared<NotingCall>();
  EXPECT_EQ(registry_.Add(refused).code(), absl::StatusCode::kResourceExhausted);
  registry_.Remove(first.get());
  EXPECT_EQ(registry_.Add(std::make_shared<NotingCall>()).code(),
            absl::StatusCode::kResourceExhausted);
  registry_.Remove(refused.get());
}

TEST_F(CallRegistryTest, LetsGoOfARemovedCall) {
  auto call = Added();
  registry_.Remove(call.get());
  EXPECT_EQ(call.use_count(), 1);
  registry_.Remove(call.get());
}

TEST_F(CallRegistryTest, NewerStreamTakesThePlaceOfTheOlder) {
  const auto older = Added();
  const auto newer = Added();
  ASSERT_TRUE(registry_.Claim(older.get(), 1, 5, 0, 10).ok());
  ASSERT_TRUE(registry_.Claim(newer.get(), 1, 5, 0, 10).ok());
  ASSERT_EQ(older->ends.size(), 1);
  EXPECT_EQ(older->ends[0].code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(newer->ends.empty());
  // The older one's end does not give up the newer one's place.
  registry_.Remove(older.get());
  const auto newest = Added();
  ASSERT_TRUE(registry_.Claim(newest.get(), 1, 5, 0, 11).ok());
  EXPECT_EQ(newer->ends.size(), 1);
}

TEST_F(CallRegistryTest, StreamOfAnOlderIncarnationIsRefused) {
  const auto current = Added();
  const auto late = Added();
  ASSERT_TRUE(registry_.Claim(current.get(), 1, 5, 0, 10).ok());
  EXPECT_EQ(registry_.Claim(late.get(), 1, 5, 0, 9).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(current->ends.empty());
  registry_.Remove(current.get());
  EXPECT_TRUE(registry_.Claim(late.get(), 1, 5, 0, 9).ok());
}

TEST_F(CallRegistryTest, OtherWorkersJobsAndGenerationsAreNotTouched) {
  const auto a = Added();
  const auto b = Added();
  const auto c = Added();
  ASSERT_TRUE(registry_.Claim(a.get(), 1, 5, 0, 10).ok());
  ASSERT_TRUE(registry_.Claim(b.get(), 1, 5, 1, 10).ok());
  ASSERT_TRUE(registry_.Claim(c.get(), 2, 5, 0, 10).ok());
  // A worker that has this index in another generation, and began earlier.
  registry_.Remove(c.get());
  const auto d = Added();
  ASSERT_TRUE(registry_.Claim(d.get(), 1, 6, 0, 9).ok());
  EXPECT_TRUE(a->ends.empty());
  EXPECT_TRUE(b->ends.empty());
}

TEST_F(CallRegistryTest, EndAllEndsWhatIsHereAndRefusesWhatComes) {
  const auto here = Added();
  registry_.EndAll(absl::UnavailableError("the server stops"));
  ASSERT_EQ(here->ends.size(), 1);
  EXPECT_EQ(here->ends[0], absl::UnavailableError("the server stops"));
  EXPECT_EQ(registry_.Add(std::make_shared<NotingCall>()),
            absl::UnavailableError("the server stops"));
}

TEST_F(CallRegistryTest, CheckAllChecksEveryCallThatIsHere) {
  const auto here = Added();
  const auto gone = Added();
  registry_.Remove(gone.get());
  registry_.CheckAll(absl::Seconds(7));
  EXPECT_EQ(here->checks, std::vector<absl::Duration>{absl::Seconds(7)});
  EXPECT_TRUE(gone->checks.empty());
}

}  // namespace
}  // namespace sangam
