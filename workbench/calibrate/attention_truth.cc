#include "workbench/calibrate/attention_truth.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "kernels/attention/sm90/tactics.h"

namespace pinch::calibrate {

namespace {

constexpr std::string_view kTitle = "batch,heads,seq,dim,causal,qk,pv,part,tactic,tflops,median_us,samples_us";

/// The fields before the samples, which are one quoted field.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::stringstream stream(line.substr(0, line.find('"')));
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  return fields;
}

}  // namespace

Result<std::vector<AttentionTime>> read_attention_times(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error{ErrorCode::kNotFound, "cannot be opened", path};
  std::map<std::string, std::size_t, std::less<>> places;
  for (std::size_t i = 0; i < attention::sm90::tactics().size(); ++i)
    places[attention::sm90::to_string(attention::sm90::tactics()[i])] = i;
  std::vector<AttentionTime> rows;
  std::string line;
  std::getline(file, line);
  if (line != kTitle) return Error{ErrorCode::kCorrupt, fmt::format("its first line is not '{}'", kTitle), path};
  for (int number = 2; std::getline(file, line); ++number) {
    const std::vector<std::string> f = fields_of(line);
    const auto refuse = [&](const char* what) {
      return Error{ErrorCode::kCorrupt, fmt::format("line {}: {}", number, what), path};
    };
    if (f.size() != 11) return refuse("not eleven fields and samples");
    AttentionTime row;
    AttentionProblem& p = row.problem;
    const auto whole = [](const std::string& text) { return static_cast<std::int64_t>(std::atoll(text.c_str())); };
    p.batch = whole(f[0]);
    p.heads = p.kv_heads = whole(f[1]);
    p.seq = p.kv_seq = whole(f[2]);
    p.dim = whole(f[3]);
    p.causal = f[4] == "1";
    p.qk = f[5] == to_string(QkType::kFp8) ? QkType::kFp8 : QkType::kBf16;
    p.pv = f[6] == to_string(PvType::kFp8)   ? PvType::kFp8
           : f[6] == to_string(PvType::kFp4) ? PvType::kFp4
                                             : PvType::kBf16;
    row.ns = std::atof(f[10].c_str()) * 1e3;
    if (!validate(p).ok() || !(row.ns > 0)) return refuse("a problem or a time that cannot be");
    const bool whole_call = f[7] == "both" || p.pv == PvType::kBf16;
    const auto place = places.find(f[8]);
    if (!whole_call || place == places.end()) continue;
    row.tactic = place->second;
    rows.push_back(row);
  }
  return rows;
}

std::vector<std::vector<const AttentionTime*>> by_problem(const std::vector<AttentionTime>& rows) {
  std::vector<std::vector<const AttentionTime*>> groups;
  for (const AttentionTime& row : rows) {
    const auto same = [&](const auto& group) { return group.front()->problem == row.problem; };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end()) {
      groups.push_back({&row});
    } else {
      found->push_back(&row);
    }
  }
  return groups;
}

}  // namespace pinch::calibrate
