#include "server/runtime/record_writer.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/saved_records.h"
#include "server/runtime/job_store.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

RecordKey Event(uint64_t number) { return {RecordKind::kEvent, 1, number, ""}; }

// Keeps records in memory, when there is room.
class FakeStore : public RecordStore {
 public:
  absl::StatusOr<SavedRecords> Load() override { return records; }
  absl::Status Write(const RecordChanges& changes) override {
    ++writes;
    if (full) return absl::ResourceExhaustedError("no room");
    for (const auto& [key, value] : changes) {
      if (value.has_value()) {
        records[key] = *value;
      } else {
        records.erase(key);
      }
    }
    return absl::OkStatus();
  }

  std::atomic<bool> full{false};
  int writes = 0;
  SavedRecords records;
};

TEST(RecordWriterTest, WritesManyChangesAtOnceAndTheNewestOfEach) {
  FakeStore store;
  RecordWriter writer(&store);
  writer.Add({{Event(1), "a"}, {Event(2), "b"}});
  writer.Add({{Event(1), "c"}, {Event(2), std::nullopt}});
  const uint64_t ticket = writer.Add({{Event(3), "d"}});
  EXPECT_EQ(writer.added(), ticket);
  EXPECT_EQ(store.writes, 0);
  EXPECT_TRUE(writer.Await(ticket).ok());
  EXPECT_EQ(store.writes, 1);
  EXPECT_EQ(store.records, (SavedRecords{{Event(1), "c"}, {Event(3), "d"}}));
  // Nothing new: nothing to wait for.
  EXPECT_TRUE(writer.Await(writer.Add({})).ok());
  EXPECT_EQ(store.writes, 1);
}

TEST(RecordWriterTest, WhatCannotBeWrittenIsRefusedAndTriedAgain) {
  FakeStore store;
  RecordWriter writer(&store);
  store.full = true;
  const uint64_t first = writer.Add({{Event(1), "a"}, {Event(2), "b"}});
  const absl::Status refused = writer.Await(first);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("no room"));
  // Also the next time that the same is asked for.
  EXPECT_EQ(writer.Await(first).code(), absl::StatusCode::kUnavailable);
  const uint64_t second = writer.Add({{Event(1), std::nullopt}, {Event(3), "c"}});
  EXPECT_EQ(writer.Await(second).code(), absl::StatusCode::kUnavailable);
  store.full = false;
  EXPECT_TRUE(writer.Await(first).ok());
  EXPECT_TRUE(writer.Await(second).ok());
  EXPECT_EQ(store.records, (SavedRecords{{Event(2), "b"}, {Event(3), "c"}}));
}

TEST(RecordWriterTest, ManyThreadsFindTheirChangesWritten) {
  FakeStore store;
  RecordWriter writer(&store);
  Mutex order;  // of the changes, as a coordinator's lock gives it
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 500; ++i) {
        uint64_t ticket = 0;
        {
          MutexLock lock(&order);
          ticket = writer.Add({{Event(t * 1000 + i), absl::StrCat(i)}, {Event(9999), "last"}});
        }
        if (!writer.Await(ticket).ok()) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(store.records.size(), 4 * 500 + 1);
}

}  // namespace
}  // namespace sangam
