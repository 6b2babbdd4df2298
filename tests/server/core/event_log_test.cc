#include "server/core/event_log.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"

namespace sangam {
namespace {

void AppendMessages(int count, EventLog* log) {
  for (int i = 0; i < count; ++i) {
    v1::JobEvent event;
    event.set_message(absl::StrCat("m", log->last_revision() + 1));
    log->Append(event);
  }
}

std::vector<uint64_t> Revisions(const std::vector<v1::JobEvent>& events) {
  std::vector<uint64_t> revisions;
  for (const v1::JobEvent& event : events) revisions.push_back(event.revision());
  return revisions;
}

TEST(EventLogTest, NumbersEventsFromOne) {
  EventLog log(10);
  AppendMessages(3, &log);
  const auto events = log.After(0, 100);
  EXPECT_EQ(Revisions(events), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(events[0].dropped(), 0u);
  EXPECT_EQ(events[2].message(), "m3");
}

TEST(EventLogTest, GivesTheOldestEventsAfterARevisionFirst) {
  EventLog log(10);
  AppendMessages(5, &log);
  EXPECT_EQ(Revisions(log.After(1, 2)), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(Revisions(log.After(3, 2)), (std::vector<uint64_t>{4, 5}));
  EXPECT_TRUE(log.After(5, 2).empty());
  EXPECT_TRUE(log.After(99, 2).empty());
}

TEST(EventLogTest, DropsTheOldestAndTellsHowMany) {
  EventLog log(3);
  AppendMessages(10, &log);
  EXPECT_EQ(log.size(), 3u);
  auto events = log.After(0, 100);
  EXPECT_EQ(Revisions(events), (std::vector<uint64_t>{8, 9, 10}));
  EXPECT_EQ(events[0].dropped(), 7u);
  events = log.After(5, 100);
  EXPECT_EQ(events[0].dropped(), 2u);  // 6 and 7
  EXPECT_EQ(events[1].dropped(), 0u);
  EXPECT_EQ(log.After(7, 100)[0].dropped(), 0u);
}

TEST(EventLogTest, ShrinkingKeepsTheNewest) {
  EventLog log(10);
  AppendMessages(5, &log);
  log.SetCapacity(2);
  EXPECT_EQ(Revisions(log.After(0, 100)), (std::vector<uint64_t>{4, 5}));
  AppendMessages(1, &log);
  EXPECT_EQ(Revisions(log.After(0, 100)), (std::vector<uint64_t>{5, 6}));
}

TEST(EventLogTest, GoesOnFromRestoredEvents) {
  EventLog log(3);
  v1::JobEvent event;
  for (const uint64_t revision : {2, 5, 6, 7, 8}) {
    event.set_revision(revision);
    log.Restore(event);
  }
  // 3 and 4 are missing, so 2 is of no use; and at most 3 are kept.
  EXPECT_EQ(log.first_revision(), 6u);
  EXPECT_EQ(log.last_revision(), 8u);
  log.Append({});
  EXPECT_EQ(log.newest().revision(), 9u);
  EXPECT_EQ(log.first_revision(), 7u);
}

}  // namespace
}  // namespace sangam
