// The times that a run of the corpus printed: data/sass/h200_loops.csv.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace corpus {

// Cycles an iteration by loop and warps of the SM: the growth from few to many iterations.
inline std::map<std::string, std::map<int, double>> read_measurements(const char* path) {
  std::map<std::string, std::map<int, std::map<int, double>>> raw;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.rfind("loop,", 0) == 0) continue;
    std::istringstream fields(line);
    std::string loop, warps, iterations, median;
    std::getline(fields, loop, ',');
    std::getline(fields, warps, ',');
    std::getline(fields, iterations, ',');
    std::getline(fields, median, ',');
    raw[loop][std::stoi(warps)][std::stoi(iterations)] = std::stod(median);
  }
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

}  // namespace corpus
