#include "workbench/sweep/sweep_store.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "src/core/subprocess.h"

namespace pinch::sweep {
namespace {

using store::Row;
using store::Value;

// user_version belongs to the tuned picks' tables, which may lie in the same file.
constexpr std::int64_t kLayout = 1;
constexpr std::string_view kSchema = R"sql(
CREATE TABLE IF NOT EXISTS sweep_layout(version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sweep(
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, subject TEXT NOT NULL, seed INTEGER NOT NULL,
  started_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')));
CREATE TABLE IF NOT EXISTS sweep_runner(
  sweep INTEGER NOT NULL REFERENCES sweep(id), pid INTEGER NOT NULL, PRIMARY KEY(sweep, pid));
CREATE TABLE IF NOT EXISTS trial(
  sweep INTEGER NOT NULL REFERENCES sweep(id), problem TEXT NOT NULL, point TEXT NOT NULL, role TEXT NOT NULL,
  round INTEGER NOT NULL, verdict TEXT NOT NULL, detail TEXT NOT NULL, samples TEXT NOT NULL, wall_s REAL NOT NULL,
  err TEXT NOT NULL, outputs TEXT NOT NULL, binary TEXT NOT NULL, device TEXT NOT NULL,
  ended_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY(sweep, problem, point, role, round));
)sql";

std::string text(const Value& value) {
  const auto* held = std::get_if<std::string>(&value);
  return held == nullptr ? std::string{} : *held;
}
std::int64_t integer(const Value& value) {
  const auto* held = std::get_if<std::int64_t>(&value);
  return held == nullptr ? 0 : *held;
}

constexpr std::array<std::pair<Role, std::string_view>, 3> kRoles = {
    {{Role::kSample, "sample"}, {Role::kTwin, "twin"}, {Role::kConfirm, "confirm"}}};

StoredTrial trial_of(const Row& row) {
  StoredTrial stored;
  stored.key = {text(row[0]), text(row[1]), Role::kSample, static_cast<int>(integer(row[3]))};
  for (const auto& [role, name] : kRoles) {
    if (name == text(row[2])) stored.key.role = role;
  }
  Trial& trial = stored.trial;
  trial.verdict = measure::parse_verdict(text(row[4])).value_or(measure::Verdict::kCrashed);
  trial.detail = text(row[5]);
  trial.samples = nlohmann::json::parse(text(row[6]), nullptr, false).get<std::vector<double>>();
  trial.wall_s = std::holds_alternative<double>(row[7]) ? std::get<double>(row[7]) : 0;
  trial.err = text(row[8]);
  trial.outputs = nlohmann::json::parse(text(row[9]), nullptr, false).get<std::map<std::string, std::string>>();
  trial.binary = text(row[10]);
  trial.device = text(row[11]);
  return stored;
}

bool alive(std::int64_t pid) {
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
}

}  // namespace

std::string_view to_string(Role role) {
  return kRoles[static_cast<std::size_t>(role)].second;
}

std::string process_token(std::int64_t sweep, const std::string& key, int pid) {
  return fmt::format("{}.{}.{}.", key.substr(0, 16), sweep, pid);
}

Result<SweepStore> SweepStore::open(const std::string& path) {
  PINCH_ASSIGN(database, store::Database::open(path));
  PINCH_TRY(database.execute("PRAGMA synchronous = FULL"));  // a trial is on the disk before the next one starts
  PINCH_ASSIGN(transaction, store::Transaction::begin(database));
  PINCH_TRY(database.execute(kSchema));
  PINCH_ASSIGN(rows, database.query("SELECT version FROM sweep_layout"));
  if (rows.empty()) PINCH_TRY(database.query("INSERT INTO sweep_layout VALUES(?)", {kLayout}));
  if (!rows.empty() && integer(rows[0][0]) != kLayout) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the sweeps have layout {}, this program reads layout {}; give another file",
                             integer(rows[0][0]), kLayout),
                 path};
  }
  PINCH_TRY(transaction.commit());
  return SweepStore(std::move(database));
}

Result<std::int64_t> SweepStore::begin(const std::string& key, const std::string& subject, std::uint64_t seed,
                                       bool forget) {
  PINCH_ASSIGN(transaction, store::Transaction::begin(database_));
  PINCH_TRY(database_.query("INSERT OR IGNORE INTO sweep(key, subject, seed) VALUES(?, ?, ?)",
                            {key, subject, static_cast<std::int64_t>(seed)}));
  PINCH_ASSIGN(rows, database_.query("SELECT id FROM sweep WHERE key = ?", {key}));
  const std::int64_t id = integer(rows[0][0]);
  PINCH_ASSIGN(runners, database_.query("SELECT pid FROM sweep_runner WHERE sweep = ?", {id}));
  for (const Row& row : runners) {
    const std::int64_t pid = integer(row[0]);
    if (alive(pid)) continue;
    kill_by_environment("PINCH_SWEEP", process_token(id, key, static_cast<int>(pid)));
    PINCH_TRY(database_.query("DELETE FROM sweep_runner WHERE sweep = ? AND pid = ?", {id, pid}));
  }
  if (forget) PINCH_TRY(database_.query("DELETE FROM trial WHERE sweep = ?", {id}));
  PINCH_TRY(
      database_.query("INSERT OR IGNORE INTO sweep_runner VALUES(?, ?)", {id, static_cast<std::int64_t>(::getpid())}));
  PINCH_TRY(transaction.commit());
  return id;
}

Result<std::vector<StoredTrial>> SweepStore::trials(std::int64_t sweep) {
  PINCH_ASSIGN(rows,
               database_.query("SELECT problem, point, role, round, verdict, detail, samples, wall_s, err, outputs, "
                               "binary, device FROM trial WHERE sweep = ? ORDER BY rowid",
                               {sweep}));
  std::vector<StoredTrial> list;
  for (const Row& row : rows) list.push_back(trial_of(row));
  return list;
}

Result<void> SweepStore::add(std::int64_t sweep, const StoredTrial& stored) {
  const Trial& trial = stored.trial;
  PINCH_TRY(database_.query(
      "INSERT OR IGNORE INTO trial(sweep, problem, point, role, round, verdict, detail, samples, wall_s, err, outputs, "
      "binary, device) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {sweep, stored.key.problem, stored.key.point, std::string(to_string(stored.key.role)),
       static_cast<std::int64_t>(stored.key.round), std::string(measure::to_string(trial.verdict)), trial.detail,
       nlohmann::json(trial.samples).dump(), trial.wall_s, trial.err, nlohmann::json(trial.outputs).dump(),
       trial.binary, trial.device}));
  return {};
}

Result<void> SweepStore::leave(std::int64_t sweep) {
  PINCH_TRY(database_.query("DELETE FROM sweep_runner WHERE sweep = ? AND pid = ?",
                            {sweep, static_cast<std::int64_t>(::getpid())}));
  return {};
}

}  // namespace pinch::sweep
