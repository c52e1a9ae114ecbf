#include "workbench/store/tune_store.h"

#include <fmt/core.h>

#include <array>

namespace pinch::store {

namespace {

constexpr std::int64_t kSchemaVersion = 1;

constexpr std::string_view kSchema = R"sql(
CREATE TABLE run(
  id INTEGER PRIMARY KEY,
  device TEXT NOT NULL, isa TEXT NOT NULL, binary TEXT NOT NULL, tactics TEXT NOT NULL,
  policy TEXT NOT NULL, problem TEXT NOT NULL, threads TEXT NOT NULL, compiler TEXT NOT NULL,
  started_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
  finished_at TEXT,
  details TEXT NOT NULL DEFAULT '');
CREATE INDEX run_by_problem ON run(problem, binary, finished_at);
CREATE TABLE point(
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  tactic TEXT NOT NULL, rank INTEGER NOT NULL, predicted REAL NOT NULL, unit TEXT NOT NULL,
  verdict TEXT NOT NULL, why TEXT NOT NULL, rel_l2 REAL, threads INTEGER NOT NULL,
  PRIMARY KEY(run, tactic));
CREATE TABLE sample(
  run INTEGER NOT NULL, tactic TEXT NOT NULL, twin INTEGER NOT NULL,
  round INTEGER NOT NULL, protocol TEXT NOT NULL, calls INTEGER NOT NULL,
  wall_ns REAL NOT NULL, cpu_ns REAL NOT NULL, clock_ghz REAL NOT NULL, accepted INTEGER NOT NULL,
  FOREIGN KEY(run, tactic) REFERENCES point(run, tactic) ON DELETE CASCADE);
CREATE INDEX sample_by_point ON sample(run, tactic);
)sql";

std::array<const std::string*, 8> fields(const TuneKey& key) {
  return {&key.device, &key.isa, &key.binary, &key.tactics, &key.policy, &key.problem, &key.threads, &key.compiler};
}

Row key_parameters(const TuneKey& key) {
  Row row;
  for (const std::string* field : fields(key)) row.emplace_back(*field);
  return row;
}

std::int64_t integer(const Value& value) {
  const auto* held = std::get_if<std::int64_t>(&value);
  return held == nullptr ? 0 : *held;
}
double real(const Value& value) {
  if (const auto* held = std::get_if<double>(&value)) return *held;
  return static_cast<double>(integer(value));
}
std::string text(const Value& value) {
  const auto* held = std::get_if<std::string>(&value);
  return held == nullptr ? std::string{} : *held;
}

measure::Sample sample_of(const Row& row) {
  measure::Sample sample;
  sample.round = static_cast<int>(integer(row[1]));
  sample.protocol = text(row[2]) == "cold" ? measure::Protocol::kCold : measure::Protocol::kWarm;
  sample.calls = static_cast<int>(integer(row[3]));
  sample.wall_ns = real(row[4]);
  sample.cpu_ns = real(row[5]);
  sample.clock_ghz = real(row[6]);
  sample.accepted = integer(row[7]) != 0;
  return sample;
}

Point point_of(const Row& row) {
  Point point;
  point.tactic = text(row[0]);
  point.rank = integer(row[1]);
  point.predicted = real(row[2]);
  point.unit = text(row[3]);
  point.verdict = measure::parse_verdict(text(row[4])).value_or(measure::Verdict::kCrashed);
  point.why = text(row[5]);
  if (!std::holds_alternative<std::nullptr_t>(row[6])) point.rel_l2 = real(row[6]);
  point.threads = integer(row[7]);
  return point;
}

Result<void> ensure_schema(Database& database) {
  // Under the write lock: of two programs that create the file, the second finds the schema there.
  PINCH_ASSIGN(transaction, Transaction::begin(database));
  PINCH_ASSIGN(rows, database.query("PRAGMA user_version"));
  const std::int64_t version = rows.empty() ? 0 : integer(rows[0][0]);
  if (version == kSchemaVersion) return transaction.commit();
  if (version != 0) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the database has layout {}, this program reads layout {}; give another file", version,
                             kSchemaVersion),
                 database.path()};
  }
  PINCH_TRY(database.execute(kSchema));
  PINCH_TRY(database.execute(fmt::format("PRAGMA user_version = {}", kSchemaVersion)));
  return transaction.commit();
}

}  // namespace

bool TuneKey::known() const {
  for (const std::string* field : fields(*this)) {
    if (field->empty()) return false;
  }
  return true;
}

Result<TuneStore> TuneStore::open(const std::string& path) {
  PINCH_ASSIGN(database, Database::open(path));
  PINCH_TRY(ensure_schema(database));
  return TuneStore(std::move(database));
}

Result<std::optional<Run>> TuneStore::find(const TuneKey& key) {
  if (!key.known()) return std::optional<Run>{};
  PINCH_ASSIGN(
      runs, database_.query("SELECT id, started_at, details FROM run WHERE device = ? AND isa = ? AND binary = ? AND "
                            "tactics = ? AND policy = ? AND problem = ? AND threads = ? AND compiler = ? AND "
                            "finished_at IS NOT NULL ORDER BY id DESC LIMIT 1",
                            key_parameters(key)));
  if (runs.empty()) return std::optional<Run>{};
  Run run{integer(runs[0][0]), text(runs[0][1]), text(runs[0][2]), {}};
  PINCH_ASSIGN(points, database_.query("SELECT tactic, rank, predicted, unit, verdict, why, rel_l2, threads FROM point "
                                       "WHERE run = ? ORDER BY rank, tactic",
                                       {run.id}));
  for (const Row& row : points) {
    Point point = point_of(row);
    PINCH_ASSIGN(samples, database_.query("SELECT twin, round, protocol, calls, wall_ns, cpu_ns, clock_ghz, accepted "
                                          "FROM sample WHERE run = ? AND tactic = ? ORDER BY rowid",
                                          {run.id, point.tactic}));
    for (const Row& sample : samples) {
      (integer(sample[0]) != 0 ? point.twin : point.samples).push_back(sample_of(sample));
    }
    run.points.push_back(std::move(point));
  }
  return std::optional<Run>(std::move(run));
}

Result<std::int64_t> TuneStore::begin(const TuneKey& key) {
  PINCH_TRY(
      database_.query("INSERT INTO run(device, isa, binary, tactics, policy, problem, threads, compiler) VALUES(?, ?, "
                      "?, ?, ?, ?, ?, ?)",
                      key_parameters(key)));
  return database_.last_insert_id();
}

Result<void> TuneStore::add_point(std::int64_t run, const Point& point) {
  Value rel_l2 = nullptr;
  if (point.rel_l2) rel_l2 = *point.rel_l2;
  PINCH_TRY(
      database_.query("INSERT INTO point(run, tactic, rank, predicted, unit, verdict, why, rel_l2, threads) "
                      "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                      {run, point.tactic, point.rank, point.predicted, point.unit,
                       std::string(to_string(point.verdict)), point.why, rel_l2, point.threads}));
  return {};
}

Result<void> TuneStore::set_verdict(std::int64_t run, std::string_view tactic, measure::Verdict verdict,
                                    std::string_view why) {
  PINCH_TRY(database_.query("UPDATE point SET verdict = ?, why = ? WHERE run = ? AND tactic = ?",
                            {std::string(to_string(verdict)), std::string(why), run, std::string(tactic)}));
  return {};
}

Result<void> TuneStore::add_samples(std::int64_t run, std::span<const TacticSamples> batch) {
  PINCH_ASSIGN(transaction, Transaction::begin(database_));
  for (const TacticSamples& tactic : batch) {
    for (const measure::Sample& sample : tactic.samples) {
      PINCH_TRY(database_.query(
          "INSERT INTO sample(run, tactic, twin, round, protocol, calls, wall_ns, cpu_ns, clock_ghz, accepted) "
          "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          {run, std::string(tactic.tactic), std::int64_t{tactic.twin}, std::int64_t{sample.round},
           std::string(to_string(sample.protocol)), std::int64_t{sample.calls}, sample.wall_ns, sample.cpu_ns,
           sample.clock_ghz, std::int64_t{sample.accepted}}));
    }
  }
  return transaction.commit();
}

Result<void> TuneStore::finish(std::int64_t run, std::string_view details) {
  PINCH_TRY(
      database_.query("UPDATE run SET details = ?, finished_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') WHERE id = ?",
                      {std::string(details), run}));
  return {};
}

}  // namespace pinch::store
