#include "common/rpc/missing_messages.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ConnectionCounts Counts(uint64_t started, uint64_t ended, uint64_t received, uint64_t bytes = 0) {
  return {"ipv4:127.0.0.1:5", started, ended, received, bytes};
}

class MissingMessagesTest : public ::testing::Test {
 protected:
  std::vector<std::string> Look(const ConnectionCounts& counts, int seconds) {
    return missing_.Look({counts}, absl::Seconds(seconds));
  }

  MissingMessages missing_{absl::Seconds(30)};
};

TEST_F(MissingMessagesTest, NamesWhoOwesAMessageForTheWholeTimeout) {
  EXPECT_THAT(Look(Counts(1, 0, 0), 0), IsEmpty());
  EXPECT_THAT(Look(Counts(1, 0, 0), 29), IsEmpty());
  EXPECT_THAT(Look(Counts(1, 0, 0), 30), ElementsAre("ipv4:127.0.0.1:5"));
}

TEST_F(MissingMessagesTest, QuietCallsThatHaveTheirMessageOweNothing) {
  for (const int seconds : {0, 100, 100000}) {
    EXPECT_THAT(Look(Counts(3, 1, 3), seconds), IsEmpty());
    EXPECT_THAT(Look(Counts(1, 0, 5000), seconds), IsEmpty());  // a stream of many
    EXPECT_THAT(Look(Counts(0, 0, 0), seconds), IsEmpty());
  }
}

TEST_F(MissingMessagesTest, AByteNowAndThenIsNoProgress) {
  for (int i = 0; i < 6; ++i) EXPECT_THAT(Look(Counts(1, 0, 0, 100 + i), 5 * i), IsEmpty());
  EXPECT_THAT(Look(Counts(1, 0, 0, 106), 30), ElementsAre("ipv4:127.0.0.1:5"));
}

TEST_F(MissingMessagesTest, NorIsACallBesides) {
  for (int i = 0; i < 6; ++i) EXPECT_THAT(Look(Counts(1 + i, 0, 0), 5 * i), IsEmpty());
  EXPECT_THAT(Look(Counts(7, 0, 0), 30), ElementsAre("ipv4:127.0.0.1:5"));
}

TEST_F(MissingMessagesTest, ALongMessageOverASlowLinkMayTakeItsTime) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(Look(Counts(1, 0, 0, MissingMessages::kLeastBytes * i), 20 * i), IsEmpty());
  }
}

TEST_F(MissingMessagesTest, OneThatComesInTimeBeginsAnew) {
  EXPECT_THAT(Look(Counts(2, 0, 0), 0), IsEmpty());
  EXPECT_THAT(Look(Counts(2, 0, 1), 20), IsEmpty());
  EXPECT_THAT(Look(Counts(2, 0, 1), 40), IsEmpty());
  EXPECT_THAT(Look(Counts(2, 0, 1), 50), ElementsAre("ipv4:127.0.0.1:5"));
}

TEST_F(MissingMessagesTest, CallsThatWereCancelledBeforeTheirMessageAreForgotten) {
  EXPECT_THAT(Look(Counts(5, 5, 0), 0), IsEmpty());
  // One that is quiet for long, and had its message.
  EXPECT_THAT(Look(Counts(6, 5, 1), 10), IsEmpty());
  EXPECT_THAT(Look(Counts(6, 5, 1), 1000), IsEmpty());
}

TEST_F(MissingMessagesTest, AQuietCallIsNotCutForOneThatWasRefusedBesides) {
  ConnectionCounts counts = Counts(1, 0, 1);  // a quiet watch
  counts.calls_served = 1;
  EXPECT_THAT(Look(counts, 0), IsEmpty());
  counts.calls_started = 2;  // one that was refused before its message
  counts.calls_ended = 1;
  for (const int seconds : {10, 100, 100000}) EXPECT_THAT(Look(counts, seconds), IsEmpty());
  // Nothing is gained by that: the next one owes its message.
  counts.calls_started = 3;
  EXPECT_THAT(Look(counts, 100010), IsEmpty());
  EXPECT_THAT(Look(counts, 100040), ElementsAre("ipv4:127.0.0.1:5"));
}

TEST_F(MissingMessagesTest, AQuietCallThatEndsLeavesNoRoomForOneWithoutItsMessage) {
  ConnectionCounts counts = Counts(1, 0, 1);
  counts.calls_served = 1;
  EXPECT_THAT(Look(counts, 0), IsEmpty());
  // The same numbers as with one that was refused.
  counts.calls_started = 2;
  counts.calls_ended = 1;
  counts.calls_served = 0;
  EXPECT_THAT(Look(counts, 10), IsEmpty());
  EXPECT_THAT(Look(counts, 40), ElementsAre("ipv4:127.0.0.1:5"));
}

TEST_F(MissingMessagesTest, AConnectionThatHasGoneIsForgotten) {
  EXPECT_THAT(Look(Counts(1, 0, 0), 0), IsEmpty());
  EXPECT_THAT(missing_.Look({}, absl::Seconds(20)), IsEmpty());
  EXPECT_THAT(Look(Counts(1, 0, 0), 40), IsEmpty());
}

}  // namespace
}  // namespace sangam
