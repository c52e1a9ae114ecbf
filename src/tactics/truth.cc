// Reads and writes ground truth.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <tuple>

#include "pinch/study.h"
#include "src/core/mapped_file.h"

namespace pinch {
namespace {

constexpr std::string_view kVersion = "1";
constexpr std::array<std::string_view, 8> kColumns{"m", "n", "k", "format", "output", "tactic", "verdict", "median_ns"};

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t at = 0;;) {
    const auto comma = line.find(',', at);
    cells.push_back(trim(line.substr(at, comma - at)));
    if (comma == std::string_view::npos) return cells;
    at = comma + 1;
  }
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// One pass over the lines; each method refuses with the words for the line it is at.
class Reader {
 public:
  explicit Reader(std::string_view file_name) : file_name_(file_name) {}

  Result<Truth> read(std::string_view csv) {
    for (std::size_t at = 0; at < csv.size(); ++line_) {
      const auto end = std::min(csv.find('\n', at), csv.size());
      const std::string_view line = trim(csv.substr(at, end - at));
      at = end + 1;
      if (line.empty()) continue;
      PINCH_TRY(line.front() == '#' ? header(trim(line.substr(1))) : body(line));
    }
    PINCH_TRY(complete());
    return std::move(truth_);
  }

 private:
  Error refuse(std::string text) const {
    return {ErrorCode::kCorrupt, std::move(text), fmt::format("{}:{}", file_name_, line_)};
  }

  Result<void> header(std::string_view text) {
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) return refuse(fmt::format("'# {}' is not '# key: value'", text));
    const std::string key(trim(text.substr(0, colon))), value(trim(text.substr(colon + 1)));
    if (key == "pinch-truth") {
      if (value != kVersion) return refuse(fmt::format("version {}; this build reads version {}", value, kVersion));
      versioned_ = true;
    } else if (key == "family") {
      truth_.family = value;
    } else if (key == "sms" || key == "threads") {
      const auto count = number<int>(value);
      if (!count || *count < 1) return refuse(fmt::format("{} is '{}'; a whole number of at least 1", key, value));
      (key == "sms" ? truth_.resources.sm_count : truth_.resources.threads) = *count;
    } else {
      truth_.provenance.emplace_back(key, value);
    }
    return {};
  }

  Result<void> body(std::string_view line) {
    const auto cells = split(line);
    if (!titled_) {
      if (!std::equal(cells.begin(), cells.end(), kColumns.begin(), kColumns.end())) {
        return refuse(fmt::format("columns '{}'; '{}' is needed", line, fmt::join(kColumns, ",")));
      }
      titled_ = true;
      return {};
    }
    if (cells.size() != kColumns.size()) {
      return refuse(fmt::format("{} cells; {} are needed", cells.size(), kColumns.size()));
    }
    TruthRow row;
    for (const auto& [size, cell] : {std::pair{&row.problem.m, cells[0]}, std::pair{&row.problem.n, cells[1]},
                                     std::pair{&row.problem.k, cells[2]}}) {
      const auto value = number<std::int64_t>(cell);
      if (!value) return refuse(fmt::format("'{}' is not a size", cell));
      *size = *value;
    }
    if (const auto valid = validate(row.problem); !valid) return refuse(valid.error().text);
    if (cells[3] == to_string(Fp4Format::kMxfp4)) row.problem.format = Fp4Format::kMxfp4;
    if (cells[4] == to_string(OutputType::kF32)) row.problem.output = OutputType::kF32;
    if (cells[3] != to_string(row.problem.format)) return refuse(fmt::format("unknown format '{}'", cells[3]));
    if (cells[4] != to_string(row.problem.output)) return refuse(fmt::format("unknown output '{}'", cells[4]));
    row.tactic = cells[5];
    row.verdict = cells[6];
    if (row.tactic.empty() || row.verdict.empty()) return refuse("a tactic and a verdict are needed");
    if (!cells[7].empty()) {
      row.median_ns = number<double>(cells[7]);
      if (!row.median_ns || !(*row.median_ns > 0) || !std::isfinite(*row.median_ns)) {
        return refuse(fmt::format("median_ns is '{}'; a time above 0, or nothing", cells[7]));
      }
    }
    if ((row.verdict == "ok") != row.median_ns.has_value()) {
      return refuse(fmt::format("verdict {} {} a median_ns", row.verdict, row.median_ns ? "with" : "without"));
    }
    const GemmProblem& p = row.problem;
    if (!seen_.insert({p.m, p.n, p.k, static_cast<int>(p.format), static_cast<int>(p.output), row.tactic}).second) {
      return refuse(fmt::format("{} is listed twice for this problem", row.tactic));
    }
    truth_.rows.push_back(std::move(row));
    return {};
  }

  Result<void> complete() const {
    if (!versioned_) return refuse(fmt::format("no '# pinch-truth: {}'; is this ground truth?", kVersion));
    if (truth_.family.empty()) return refuse("no '# family: ...'");
    if (truth_.resources == Resources{}) return refuse("neither '# sms: N' nor '# threads: N'");
    for (const std::string_view key : {"machine", "source", "method"}) {
      const auto has = [&](const auto& entry) { return entry.first == key && !entry.second.empty(); };
      if (std::none_of(truth_.provenance.begin(), truth_.provenance.end(), has)) {
        return refuse(fmt::format("no '# {}: ...'; times without provenance prove nothing", key));
      }
    }
    if (truth_.rows.empty()) return refuse("no rows");
    return {};
  }

  std::string file_name_;
  int line_ = 1;
  bool versioned_ = false, titled_ = false;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, int, int, std::string>> seen_;
  Truth truth_;
};

}  // namespace

Result<Truth> parse_truth(std::string_view csv, std::string_view file_name) {
  return Reader(file_name).read(csv);
}

Result<Truth> read_truth(const std::string& path) {
  PINCH_ASSIGN(file, MappedFile::open(path));
  const auto bytes = file->bytes();
  return parse_truth({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

std::string to_csv(const Truth& truth) {
  std::string csv = fmt::format("# pinch-truth: {}\n# family: {}\n", kVersion, truth.family);
  if (truth.resources.sm_count > 0) csv += fmt::format("# sms: {}\n", truth.resources.sm_count);
  if (truth.resources.threads > 0) csv += fmt::format("# threads: {}\n", truth.resources.threads);
  for (const auto& [key, value] : truth.provenance) csv += fmt::format("# {}: {}\n", key, value);
  csv += fmt::format("{}\n", fmt::join(kColumns, ","));
  for (const TruthRow& row : truth.rows) {
    const GemmProblem& p = row.problem;
    csv += fmt::format("{},{},{},{},{},{},{},{}\n", p.m, p.n, p.k, to_string(p.format), to_string(p.output), row.tactic,
                       row.verdict, row.median_ns ? fmt::format("{}", *row.median_ns) : "");
  }
  return csv;
}

}  // namespace pinch
