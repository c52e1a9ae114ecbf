#include "workbench/sweep/sweep_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/core/file_error.h"
#include "src/core/json_text.h"
#include "src/core/subprocess.h"

namespace pinch::sweep {
namespace {

using store::Row;

// user_version belongs to the tuned picks' tables, which may lie in the same file.
constexpr std::int64_t kLayout = 2;
constexpr std::string_view kSchema = R"sql(
CREATE TABLE IF NOT EXISTS sweep_layout(version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sweep(
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, subject TEXT NOT NULL, seed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sweep_start(
  id INTEGER PRIMARY KEY, sweep INTEGER NOT NULL REFERENCES sweep(id), pid INTEGER NOT NULL, environment TEXT NOT NULL,
  started_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')), left_at TEXT);
CREATE TABLE IF NOT EXISTS trial(
  sweep INTEGER NOT NULL REFERENCES sweep(id), problem TEXT NOT NULL, point TEXT NOT NULL, role TEXT NOT NULL,
  round INTEGER NOT NULL, device TEXT NOT NULL, start INTEGER NOT NULL REFERENCES sweep_start(id),
  verdict TEXT NOT NULL, detail TEXT NOT NULL, samples TEXT NOT NULL, wall_s REAL NOT NULL, err TEXT NOT NULL,
  outputs TEXT NOT NULL, binary TEXT NOT NULL,
  ended_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY(sweep, problem, point, role, round, device));
)sql";
constexpr std::string_view kLeave =
    "UPDATE sweep_start SET left_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') WHERE sweep = ? AND left_at IS NULL";
constexpr auto kWaitTick = std::chrono::milliseconds(200);

std::string text(const store::Value& value) {
  const auto* held = std::get_if<std::string>(&value);
  return held == nullptr ? std::string{} : *held;
}
std::int64_t integer(const store::Value& value) {
  const auto* held = std::get_if<std::int64_t>(&value);
  return held == nullptr ? 0 : *held;
}

constexpr std::array<std::pair<Role, std::string_view>, 3> kRoles = {
    {{Role::kSample, "sample"}, {Role::kTwin, "twin"}, {Role::kConfirm, "confirm"}}};

StoredTrial trial_of(const Row& row) {
  StoredTrial stored;
  stored.key = {text(row[0]), text(row[1]), Role::kSample, static_cast<int>(integer(row[3])), text(row[11])};
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
  return stored;
}

std::string process_token(const std::string& key, std::int64_t sweep, std::int64_t pid) {
  return fmt::format("{}.{}.{}.", key.substr(0, 16), sweep, pid);
}

}  // namespace

std::string_view to_string(Role role) {
  return kRoles[static_cast<std::size_t>(role)].second;
}

SweepStore::Lock::~Lock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int SweepStore::Lock::take(std::int64_t byte) const {
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  if (::fcntl(descriptor_, F_SETLK, &range) == 0) return 0;
  if (errno != EAGAIN && errno != EACCES) return -1;
  if (::fcntl(descriptor_, F_GETLK, &range) != 0) return -1;
  // A holder on another host or in another namespace may show as 0.
  return range.l_type == F_UNLCK ? take(byte) : std::max(1, static_cast<int>(range.l_pid));
}

void SweepStore::Lock::release(std::int64_t byte) const {
  struct flock range = {};
  range.l_type = F_UNLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  ::fcntl(descriptor_, F_SETLK, &range);
}

Result<SweepStore> SweepStore::open(const std::string& path) {
  PINCH_ASSIGN(database, store::Database::open(path));
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
  const std::string lock_file = path + "-lock";
  const int descriptor = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return os_error(lock_file, "be opened", errno);
  Lock lock(descriptor);
  PINCH_ASSIGN(flusher, store::Flusher::open(path + "-wal"));
  return SweepStore(std::move(database), std::move(flusher), std::move(lock));
}

Result<void> SweepStore::begin(const SweepStart& start, const std::function<bool(int pid)>& wait) {
  key_ = start.key;
  PINCH_TRY(database_.query("INSERT OR IGNORE INTO sweep(key, subject, seed) VALUES(?, ?, ?)",
                            {key_, start.subject, static_cast<std::int64_t>(start.seed)}));
  PINCH_ASSIGN(rows, database_.query("SELECT id FROM sweep WHERE key = ?", {key_}));
  sweep_ = integer(rows[0][0]);
  for (int holder = 0; (holder = lock_.take(sweep_)) != 0; std::this_thread::sleep_for(kWaitTick)) {
    if (holder < 0) return os_error(database_.path() + "-lock", "be locked", errno);
    if (!wait || !wait(holder)) return Error{ErrorCode::kInterrupted, "another process runs this sweep", ""};
  }
  // Whoever began and did not leave is dead: the lock would be its.
  PINCH_ASSIGN(runners, database_.query("SELECT pid FROM sweep_start WHERE sweep = ? AND left_at IS NULL", {sweep_}));
  for (const Row& row : runners) kill_by_environment("PINCH_SWEEP", process_token(key_, sweep_, integer(row[0])));
  PINCH_ASSIGN(transaction, store::Transaction::begin(database_));
  PINCH_TRY(database_.query(kLeave, {sweep_}));
  if (start.forget) PINCH_TRY(database_.query("DELETE FROM trial WHERE sweep = ?", {sweep_}));
  PINCH_TRY(database_.query("INSERT INTO sweep_start(sweep, pid, environment) VALUES(?, ?, ?)",
                            {sweep_, static_cast<std::int64_t>(::getpid()), start.environment}));
  start_ = database_.last_insert_id();
  return transaction.commit();
}

std::string SweepStore::token() const {
  return process_token(key_, sweep_, ::getpid());
}

Result<std::vector<StoredTrial>> SweepStore::trials() {
  PINCH_ASSIGN(rows,
               database_.query("SELECT problem, point, role, round, verdict, detail, samples, wall_s, err, outputs, "
                               "binary, device FROM trial WHERE sweep = ? ORDER BY rowid",
                               {sweep_}));
  std::vector<StoredTrial> list;
  for (const Row& row : rows) list.push_back(trial_of(row));
  return list;
}

Result<nlohmann::ordered_json> SweepStore::starts() {
  PINCH_ASSIGN(rows, database_.query("SELECT sweep_start.started_at, count(*), sweep_start.environment FROM trial JOIN "
                                     "sweep_start ON trial.start = sweep_start.id WHERE trial.sweep = ? GROUP BY "
                                     "sweep_start.id ORDER BY sweep_start.id",
                                     {sweep_}));
  auto list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    list.push_back({{"started_at", text(row[0])},
                    {"trials", integer(row[1])},
                    {"environment", nlohmann::ordered_json::parse(text(row[2]), nullptr, /*allow_exceptions=*/false)}});
  }
  return list;
}

Result<void> SweepStore::add(const StoredTrial& stored) {
  const Trial& trial = stored.trial;
  PINCH_TRY(database_.query(
      "INSERT OR IGNORE INTO trial(sweep, problem, point, role, round, device, start, verdict, detail, samples, "
      "wall_s, "
      "err, outputs, binary) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {sweep_, stored.key.problem, stored.key.point, std::string(to_string(stored.key.role)),
       static_cast<std::int64_t>(stored.key.round), stored.key.device, start_,
       std::string(measure::to_string(trial.verdict)), trial.detail, nlohmann::json(trial.samples).dump(), trial.wall_s,
       trial.err, json_text(nlohmann::json(trial.outputs)), trial.binary}));
  return flusher_->request();
}

Result<void> SweepStore::leave() {
  PINCH_TRY(database_.query(kLeave, {sweep_}));
  lock_.release(sweep_);
  PINCH_TRY(flusher_->request());
  return flusher_->wait();
}

}  // namespace pinch::sweep
