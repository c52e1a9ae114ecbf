// The times that a run of the corpus printed: data/sass/h200_loops.csv.
#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace corpus {

struct Row {
  std::string loop;
  int warps = 0, iterations = 0;
  double median = 0, least = 0, most = 0;  // cycles
};

inline std::vector<Row> read_rows(const char* path) {
  std::vector<Row> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.rfind("loop,", 0) == 0) continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    Row row;
    std::istringstream(line) >> row.loop >> row.warps >> row.iterations >> row.median >> row.least >> row.most;
    rows.push_back(std::move(row));
  }
  return rows;
}

// Cycles an iteration by loop and warps of the SM: the growth from few to many iterations.
inline std::map<std::string, std::map<int, double>> read_measurements(const char* path) {
  std::map<std::string, std::map<int, std::map<int, double>>> raw;
  for (const Row& row : read_rows(path)) raw[row.loop][row.warps][row.iterations] = row.median;
  std::map<std::string, std::map<int, double>> slopes;
  for (const auto& [loop, by_warps] : raw) {
    for (const auto& [warps, runs] : by_warps) {
      const auto& [few, few_cycles] = *runs.begin();
      const auto& [many, many_cycles] = *runs.rbegin();
      if (many > few) slopes[loop][warps] = (many_cycles - few_cycles) / (many - few);
    }
  }
  return slopes;
}

// (most - least) / median of the repeats, the larger of both numbers of iterations.
inline std::map<std::string, std::map<int, double>> read_spreads(const char* path) {
  std::map<std::string, std::map<int, double>> spreads;
  for (const Row& row : read_rows(path)) {
    double& spread = spreads[row.loop][row.warps];
    spread = std::max(spread, (row.most - row.least) / row.median);
  }
  return spreads;
}

}  // namespace corpus
