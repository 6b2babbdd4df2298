#include "server/runtime/job_store.h"

#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/saved_records.h"
#include "tests/testing/subprocess.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

std::string FreshPath(const std::string& name) {
  return absl::StrCat(testing::FreshFolder(name), "/sangam.db");
}

// Runs SQL as another program would.
void Execute(const std::string& path, const std::string& sql) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(handle);
  sqlite3_close(handle);
}

const RecordKey kJob{RecordKind::kJob, 1, 0, ""};
const RecordKey kEvent{RecordKind::kEvent, 1, 7, ""};
const RecordKey kReport{RecordKind::kReport, 1, std::numeric_limits<int64_t>::max(), "worker w'1"};

TEST(JobStoreTest, WhatWasWrittenIsThereAfterwards) {
  const std::string path = FreshPath("job-store");
  const std::string bytes("\0a\xff'\n", 5);
  {
    const auto store = JobStore::Open(path);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Write({{kJob, "old"}, {kEvent, "event"}, {kReport, ""}}).ok());
    ASSERT_TRUE((*store)->Write({{kJob, bytes}, {kEvent, std::nullopt}}).ok());
  }
  const auto store = JobStore::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto records = (*store)->Load();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, (SavedRecords{{kJob, bytes}, {kReport, ""}}));
}

TEST(JobStoreTest, WhatWasWrittenIsThereWhileTheWriterLives) {
  const std::string path = FreshPath("job-store-killed");
  const auto store = JobStore::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Write({{kJob, "job"}}).ok());
  // As after kill -9: the file was never closed.
  const auto second = JobStore::Open(path);
  ASSERT_TRUE(second.ok()) << second.status();
  const auto records = (*second)->Load();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, (SavedRecords{{kJob, "job"}}));
}

TEST(JobStoreTest, ANewerSchemaIsRefusedWithBothVersions) {
  const std::string path = FreshPath("job-store-newer");
  ASSERT_TRUE(JobStore::Open(path).ok());
  Execute(path, "PRAGMA user_version=9");
  const absl::Status refused = JobStore::Open(path).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(path));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("found schema version 9, this program reads version 1"));
}

TEST(JobStoreTest, AnotherProgramsDatabaseIsLeftAlone) {
  const std::string path = FreshPath("job-store-other");
  Execute(path, "CREATE TABLE t (a)");
  const absl::Status refused = JobStore::Open(path).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("another program"));
}

TEST(JobStoreTest, DamageIsFound) {
  const std::string text = FreshPath("job-store-text");
  testing::WriteFile(text, std::string(5000, 'x'));
  const absl::Status no_database = JobStore::Open(text).status();
  EXPECT_EQ(no_database.code(), absl::StatusCode::kDataLoss) << no_database;
  EXPECT_THAT(std::string(no_database.message()), HasSubstr(text));

  const std::string path = FreshPath("job-store-damaged");
  {
    const auto store = JobStore::Open(path);
    ASSERT_TRUE(store.ok()) << store.status();
    RecordChanges changes;
    for (uint64_t i = 0; i < 5000; ++i) {
      changes[{RecordKind::kEvent, 1, i, ""}] = std::string(100, 'e');
    }
    ASSERT_TRUE((*store)->Write(changes).ok());
  }
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100000);
    file << std::string(3 * 4096, '\xa5');
  }
  const absl::Status damaged = JobStore::Open(path).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss) << damaged;
  EXPECT_THAT(std::string(damaged.message()), HasSubstr(path));
}

TEST(JobStoreTest, AFullDiskIsAnErrorAndChangesNothing) {
  const std::string path = FreshPath("job-store-full");
  {
    const auto store = JobStore::Open(path);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Write({{kJob, "job"}}).ok());
    // As on a full disk: the file may not grow.
    struct rlimit limit;
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 64 * 1024;
    ::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    const absl::Status full =
        (*store)->Write({{kJob, "changed"}, {kEvent, std::string(1 << 20, 'e')}});
    EXPECT_FALSE(full.ok());
    EXPECT_THAT(std::string(full.message()), HasSubstr(path));
    limit.rlim_cur = before;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    const auto records = (*store)->Load();
    ASSERT_TRUE(records.ok()) << records.status();
    EXPECT_EQ(*records, (SavedRecords{{kJob, "job"}}));
    // And when there is room again, it goes on.
    EXPECT_TRUE((*store)->Write({{kEvent, std::string(1 << 20, 'e')}}).ok());
  }
  EXPECT_TRUE(JobStore::Open(path).ok());
}

// Such as an administrator's who looks at it, for a moment.
TEST(JobStoreTest, WaitsForAnotherProgramThatHasTheLock) {
  const std::string path = FreshPath("busy");
  auto store = JobStore::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  std::thread release([other] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr);
  });
  RecordChanges changes;
  changes[{RecordKind::kJob, 1, 0, ""}] = "x";
  const absl::Status status = (*store)->Write(changes);
  release.join();
  sqlite3_close(other);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(JobStoreTest, AFileThatMayNotBeReadOrWrittenIsRefused) {
  const std::string folder = testing::FreshFolder("job-store-folder");
  ASSERT_EQ(::mkdir((folder + "/sangam.db").c_str(), 0755), 0);
  const absl::Status is_folder = JobStore::Open(folder + "/sangam.db").status();
  EXPECT_EQ(is_folder.code(), absl::StatusCode::kPermissionDenied) << is_folder;
  EXPECT_THAT(std::string(is_folder.message()), HasSubstr(folder));

  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const std::string path = FreshPath("job-store-read-only");
  ASSERT_TRUE(JobStore::Open(path).ok());
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  const absl::Status refused = JobStore::Open(path).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(path));
}

}  // namespace
}  // namespace sangam
