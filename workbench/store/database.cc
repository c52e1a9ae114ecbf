#include "workbench/store/database.h"

#include <fmt/core.h>
#include <sqlite3.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

namespace pinch::store {

namespace {

constexpr int kBusyTimeoutMs = 10'000;

struct Finalizer {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalizer>;

void bind(sqlite3_stmt* statement, int position, const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    sqlite3_bind_int64(statement, position, *integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    sqlite3_bind_double(statement, position, *real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    sqlite3_bind_text(statement, position, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
  } else {
    sqlite3_bind_null(statement, position);
  }
}

Value column(sqlite3_stmt* statement, int index) {
  switch (sqlite3_column_type(statement, index)) {
    case SQLITE_INTEGER:
      return sqlite3_column_int64(statement, index);
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, index);
    case SQLITE_NULL:
      return nullptr;
    default: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, index));
      return std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(statement, index)));
    }
  }
}

}  // namespace

void Database::Closer::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Result<Database> Database::open(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed) {
    return Error{ErrorCode::kIo, fmt::format("cannot create the folder: {}; give another file", failed.message()),
                 path};
  }
  sqlite3* raw = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  Database database(std::unique_ptr<sqlite3, Closer>(raw), path);
  if (opened != SQLITE_OK) return database.failure("open");
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  // Of two that make a file a WAL file at once SQLite turns one away without the wait: both hold what both need.
  const auto start = std::chrono::steady_clock::now();
  auto made = database.execute("PRAGMA journal_mode = WAL");
  while (!made.ok() && (sqlite3_errcode(raw) & 0xff) == SQLITE_BUSY &&
         std::chrono::steady_clock::now() - start < std::chrono::milliseconds(kBusyTimeoutMs)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    made = database.execute("PRAGMA journal_mode = WAL");
  }
  PINCH_TRY(std::move(made));
  // NORMAL: a power cut may lose the last transactions, never the file. Samples can be measured again.
  PINCH_TRY(database.execute("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON"));
  return database;
}

Error Database::failure(std::string_view doing) const {
  const int code = handle_ ? sqlite3_errcode(handle_.get()) : SQLITE_NOMEM;
  const char* says = handle_ ? sqlite3_errmsg(handle_.get()) : "out of memory";
  const bool corrupt = code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
  return {corrupt ? ErrorCode::kCorrupt : ErrorCode::kIo,
          fmt::format("cannot {} the database: {}; give another file", doing, says), path_};
}

Result<void> Database::execute(std::string_view sql) {
  if (sqlite3_exec(handle_.get(), std::string(sql).c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return failure("write");
  }
  return {};
}

Result<std::vector<Row>> Database::query(std::string_view sql, const Row& parameters) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr) != SQLITE_OK) {
    return failure("read");
  }
  const Statement statement(raw);
  for (std::size_t i = 0; i < parameters.size(); ++i) bind(raw, static_cast<int>(i + 1), parameters[i]);
  std::vector<Row> rows;
  int step = SQLITE_ROW;
  while ((step = sqlite3_step(raw)) == SQLITE_ROW) {
    Row row;
    for (int i = 0; i < sqlite3_column_count(raw); ++i) row.push_back(column(raw, i));
    rows.push_back(std::move(row));
  }
  if (step != SQLITE_DONE) return failure("write");
  return rows;
}

std::int64_t Database::last_insert_id() const {
  return sqlite3_last_insert_rowid(handle_.get());
}

Result<Transaction> Transaction::begin(Database& database) {
  PINCH_TRY(database.execute("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::~Transaction() {
  // A failed rollback leaves nothing to do: closing the file undoes the transaction too.
  if (database_ != nullptr) static_cast<void>(database_->execute("ROLLBACK"));
}

Result<void> Transaction::commit() {
  PINCH_TRY(database_->execute("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace pinch::store
