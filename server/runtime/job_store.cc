#include "server/runtime/job_store.h"

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "server/core/saved_records.h"

namespace sangam {
namespace {

// "SNGM": tells our files from those of others (PRAGMA application_id).
constexpr int64_t kApplicationId = 0x534e474d;
// Raised when an older version cannot read what is written any more (PRAGMA user_version).
constexpr int64_t kSchemaVersion = 1;

// For another program that looks at the file; shorter than any lease that is usual.
constexpr int kBusyMilliseconds = 2000;

constexpr char kSchema[] =
    "CREATE TABLE record (kind INTEGER NOT NULL, job INTEGER NOT NULL, number INTEGER NOT NULL,"
    " part TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (kind, job, number, part))"
    " WITHOUT ROWID;";

absl::StatusCode CodeOf(int result) {
  switch (result & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_AUTH:
      return absl::StatusCode::kPermissionDenied;
    case SQLITE_FULL:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

// The connection and its prepared statements.
class JobStore::Database {
 public:
  explicit Database(std::string path) : path_(std::move(path)) {}
  ~Database() {
    sqlite3_finalize(upsert_);
    sqlite3_finalize(erase_);
    sqlite3_close(handle_);
  }

  absl::Status Open() {
    RETURN_IF_ERROR(Check(sqlite3_open_v2(path_.c_str(), &handle_,
                                          SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr),
                          "open"));
    sqlite3_extended_result_codes(handle_, 1);
    sqlite3_busy_timeout(handle_, kBusyMilliseconds);
    RETURN_IF_ERROR(Execute("PRAGMA journal_mode=WAL"));
    RETURN_IF_ERROR(Execute("PRAGMA synchronous=NORMAL"));
    RETURN_IF_ERROR(OpenSchema());
    RETURN_IF_ERROR(QuickCheck());
    RETURN_IF_ERROR(
        Prepare("INSERT INTO record VALUES (?1, ?2, ?3, ?4, ?5)"
                " ON CONFLICT (kind, job, number, part) DO UPDATE SET value = excluded.value",
                &upsert_));
    return Prepare("DELETE FROM record WHERE kind = ?1 AND job = ?2 AND number = ?3 AND part = ?4",
                   &erase_);
  }

  absl::StatusOr<SavedRecords> Load() {
    sqlite3_stmt* select = nullptr;
    RETURN_IF_ERROR(Prepare("SELECT kind, job, number, part, value FROM record", &select));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owner(select, sqlite3_finalize);
    SavedRecords records;
    int result = SQLITE_ROW;
    while ((result = sqlite3_step(select)) == SQLITE_ROW) {
      RecordKey key;
      key.kind = static_cast<RecordKind>(sqlite3_column_int(select, 0));
      key.job = static_cast<uint64_t>(sqlite3_column_int64(select, 1));
      key.number = static_cast<uint64_t>(sqlite3_column_int64(select, 2));
      key.part = ColumnBytes(select, 3);
      records.emplace(std::move(key), ColumnBytes(select, 4));
    }
    RETURN_IF_ERROR(Check(result, "read"));
    return records;
  }

  absl::Status Write(const RecordChanges& changes) {
    RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
    absl::Status status = WriteAll(changes);
    if (status.ok()) status = Execute("COMMIT");
    // After some errors SQLite has rolled back by itself.
    if (!status.ok() && sqlite3_get_autocommit(handle_) == 0) {
      sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
    }
    return status;
  }

 private:
  absl::Status Check(int result, absl::string_view what) const {
    if (result == SQLITE_OK || result == SQLITE_DONE || result == SQLITE_ROW) {
      return absl::OkStatus();
    }
    return absl::Status(CodeOf(result),
                        absl::StrCat("\"", path_, "\": ", what, ": ",
                                     handle_ != nullptr ? sqlite3_errmsg(handle_) : "no memory"));
  }

  absl::Status Execute(const char* sql) {
    return Check(sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr), sql);
  }

  absl::Status Prepare(const char* sql, sqlite3_stmt** statement) {
    return Check(sqlite3_prepare_v2(handle_, sql, -1, statement, nullptr), sql);
  }

  static std::string ColumnBytes(sqlite3_stmt* statement, int column) {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
    const int size = sqlite3_column_bytes(statement, column);
    return bytes == nullptr ? "" : std::string(bytes, static_cast<size_t>(size));
  }

  // The first column of the statement's first row.
  absl::StatusOr<std::string> Query(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    RETURN_IF_ERROR(Prepare(sql, &statement));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owner(statement, sqlite3_finalize);
    const int result = sqlite3_step(statement);
    RETURN_IF_ERROR(Check(result, sql));
    return result == SQLITE_ROW ? ColumnBytes(statement, 0) : "";
  }

  absl::Status OpenSchema() {
    ASSIGN_OR_RETURN(const std::string application, Query("PRAGMA application_id"));
    ASSIGN_OR_RETURN(const std::string version, Query("PRAGMA user_version"));
    ASSIGN_OR_RETURN(const std::string tables, Query("SELECT count(*) FROM sqlite_schema"));
    if (application == "0" && version == "0" && tables == "0") {
      RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
      RETURN_IF_ERROR(Execute(kSchema));
      RETURN_IF_ERROR(Execute(absl::StrCat("PRAGMA application_id=", kApplicationId).c_str()));
      RETURN_IF_ERROR(Execute(absl::StrCat("PRAGMA user_version=", kSchemaVersion).c_str()));
      return Execute("COMMIT");
    }
    if (application != absl::StrCat(kApplicationId)) {
      return absl::FailedPreconditionError(
          absl::StrCat("\"", path_, "\": found a database of another program (application_id ",
                       application, "), expected ", kApplicationId));
    }
    if (version != absl::StrCat(kSchemaVersion)) {
      return absl::FailedPreconditionError(
          absl::StrCat("\"", path_, "\": found schema version ", version,
                       ", this program reads version ", kSchemaVersion,
                       "; start the newer sangam-server that wrote it, or choose another folder"));
    }
    return absl::OkStatus();
  }

  absl::Status QuickCheck() {
    ASSIGN_OR_RETURN(const std::string result, Query("PRAGMA quick_check(1)"));
    if (result == "ok") return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("\"", path_, "\": damaged: ", result));
  }

  absl::Status WriteAll(const RecordChanges& changes) {
    for (const auto& [key, value] : changes) {
      sqlite3_stmt* const statement = value.has_value() ? upsert_ : erase_;
      const absl::Status status = WriteOne(statement, key, value);
      sqlite3_reset(statement);
      sqlite3_clear_bindings(statement);
      RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  absl::Status WriteOne(sqlite3_stmt* statement, const RecordKey& key,
                        const std::optional<std::string>& value) {
    RETURN_IF_ERROR(Check(sqlite3_bind_int(statement, 1, static_cast<int>(key.kind)), "bind"));
    RETURN_IF_ERROR(Check(sqlite3_bind_int64(statement, 2, static_cast<int64_t>(key.job)), "bind"));
    RETURN_IF_ERROR(
        Check(sqlite3_bind_int64(statement, 3, static_cast<int64_t>(key.number)), "bind"));
    RETURN_IF_ERROR(Check(sqlite3_bind_text(statement, 4, key.part.data(),
                                            static_cast<int>(key.part.size()), SQLITE_STATIC),
                          "bind"));
    if (value.has_value()) {
      RETURN_IF_ERROR(Check(
          sqlite3_bind_blob64(statement, 5, value->data(), value->size(), SQLITE_STATIC), "bind"));
    }
    return Check(sqlite3_step(statement), "write");
  }

  const std::string path_;
  sqlite3* handle_ = nullptr;
  sqlite3_stmt* upsert_ = nullptr;
  sqlite3_stmt* erase_ = nullptr;
};

JobStore::JobStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}
JobStore::~JobStore() = default;

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(const std::string& path) {
  auto database = std::make_unique<Database>(path);
  RETURN_IF_ERROR(database->Open());
  return std::unique_ptr<JobStore>(new JobStore(std::move(database)));
}

absl::StatusOr<SavedRecords> JobStore::Load() { return database_->Load(); }
absl::Status JobStore::Write(const RecordChanges& changes) { return database_->Write(changes); }

}  // namespace sangam
