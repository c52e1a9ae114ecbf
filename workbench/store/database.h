// SQLite in RAII form. Every failure is an Error that names the file and what SQLite said.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pinch/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace pinch::store {

using Value = std::variant<std::nullptr_t, std::int64_t, double, std::string>;
using Row = std::vector<Value>;

/// One open file in WAL mode, safe with concurrent writers: a writer waits up to 10 s for another.
class Database {
 public:
  static Result<Database> open(const std::string& path);

  /// Runs statements that return no rows.
  Result<void> execute(std::string_view sql);
  /// Runs one statement with its parameters bound in order, and returns its rows.
  Result<std::vector<Row>> query(std::string_view sql, const Row& parameters = {});
  [[nodiscard]] std::int64_t last_insert_id() const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  struct Closer {
    void operator()(sqlite3* handle) const;
  };
  Database(std::unique_ptr<sqlite3, Closer> handle, std::string path)
      : handle_(std::move(handle)), path_(std::move(path)) {}
  [[nodiscard]] Error failure(std::string_view doing) const;

  std::unique_ptr<sqlite3, Closer> handle_;
  std::string path_;
};

/// A write transaction: takes the write lock at once, so that a read within it cannot be overtaken; undone unless
/// committed.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Result<void> commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;
};

}  // namespace pinch::store
