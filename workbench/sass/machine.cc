#include "workbench/sass/machine.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "embedded/machine_sm_100a.h"
#include "embedded/machine_sm_103a.h"
#include "embedded/machine_sm_80.h"
#include "embedded/machine_sm_90a.h"

namespace pinch::sass {
namespace {

constexpr std::array<std::string_view, kPipes> kPipeNames = {
    "issue", "fma", "fma_heavy", "half", "alu", "f2fp", "xu", "lsu", "tensor", "uniform", "async", "control"};

constexpr std::pair<std::string_view, std::string_view> kModels[] = {{"sm_80", embedded::machine_sm_80},
                                                                     {"sm_90a", embedded::machine_sm_90a},
                                                                     {"sm_100a", embedded::machine_sm_100a},
                                                                     {"sm_103a", embedded::machine_sm_103a}};

std::optional<int> pipe_named(std::string_view name) {
  for (int p = 0; p < kPipes; ++p) {
    if (kPipeNames[static_cast<std::size_t>(p)] == name) return p;
  }
  return std::nullopt;
}

std::string_view without_suffix(std::string_view arch) {
  while (!arch.empty() && (arch.back() == 'a' || arch.back() == 'f')) arch.remove_suffix(1);
  return arch;
}

int words_moved(const Instruction& i) {
  return i.has_modifier("128") ? 4 : i.has_modifier("64") ? 2 : 1;
}

// N of "HGMMA.64x256x16.F32".
int matrix_n(std::string_view mnemonic) {
  const auto shape = mnemonic.find(".64x");
  int n = 0;
  for (std::size_t i = shape + 4;
       shape != std::string_view::npos && i < mnemonic.size() && mnemonic[i] >= '0' && mnemonic[i] <= '9' && n < 1000;
       ++i)
    n = n * 10 + (mnemonic[i] - '0');
  return n;
}

}  // namespace

std::string_view name_of(Pipe pipe) {
  return kPipeNames[static_cast<std::size_t>(pipe)];
}

Result<Machine> Machine::parse(std::string_view text, const std::string& name) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto bad = [&](const std::string& what) { return Error{ErrorCode::kCorrupt, what, name}; };
  if (!json.is_object()) return bad("a machine model is a JSON object");
  Machine machine;
  try {
    if (json.at("schema") != "pinch-gpu-rates/1") throw std::invalid_argument("schema must be \"pinch-gpu-rates/1\"");
    machine.name_ = json.at("name").get<std::string>();
    const auto& sources = json.at("sources");
    const auto measured = [&](const nlohmann::json& entry) {
      return sources.at(entry.at("from").get<std::string>()).at("measured").get<bool>();
    };
    const auto& scheduler = json.at("scheduler");
    const auto rate = [&](const char* field) {
      const auto& entry = scheduler.at(field);
      if (entry.at("unit") != "cycles")
        throw std::invalid_argument(fmt::format("scheduler.{}.unit must be \"cycles\"", field));
      static_cast<void>(measured(entry));  // names a source that exists
      const float value = entry.at("value").get<float>();
      if (!(value >= 0 && value < 1000))
        throw std::invalid_argument(fmt::format("scheduler.{} must be 0 to 1000 cycles", field));
      return value;
    };
    machine.scheduler_.taken_branch_cycles = rate("taken_branch");
    machine.scheduler_.drain_cycles = rate("drain");
    machine.scheduler_.drain_measured = measured(scheduler.at("drain"));
    machine.scheduler_.queue_cycles = rate("queue");
    if (scheduler.contains("wgmma_wait")) machine.scheduler_.wgmma_wait_cycles = rate("wgmma_wait");
    machine.scheduler_.greedy = scheduler.at("policy").at("value") == "greedy";
    for (const auto& entry : json.at("instructions")) {
      Row row;
      const auto match = entry.at("match").get<std::string>();
      for (const auto& [pipe, cycles] : entry.at("uses").items()) {
        const auto index = pipe_named(pipe);
        if (!index)
          throw std::invalid_argument(
              fmt::format("{} uses the unknown pipe '{}'; pipes: {}", match, pipe, fmt::join(kPipeNames, " ")));
        const float value = cycles.get<float>();
        if (!(value >= 0 && value < 10000))
          throw std::invalid_argument(fmt::format("{}: {} must be 0 to 10000 cycles", match, pipe));
        row.cost.uses[static_cast<std::size_t>(*index)] = value;
      }
      row.cost.latency = entry.value("latency", 0.0f);
      row.cost.read_latency = entry.value("read_latency", 0.0f);
      if (!(row.cost.latency >= 0 && row.cost.latency < 10000 && row.cost.read_latency >= 0 &&
            row.cost.read_latency < 10000))
        throw std::invalid_argument(match + ": latencies must be 0 to 10000 cycles");
      row.by_width = entry.value("by_width", false);
      row.tensor_cycles_per_n = entry.value("tensor_cycles_per_n", 0.0f);
      row.cost.measured = measured(entry);
      row.cost.listed = true;
      if (!machine.rows_.emplace(match, row).second) throw std::invalid_argument(match + " is listed twice");
    }
  } catch (const std::exception& error) {
    return bad(error.what());
  }
  return machine;
}

Result<std::shared_ptr<const Machine>> Machine::of(std::string_view arch) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Machine>, std::less<>> known;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const auto& [name, text] : kModels) {
    if (without_suffix(name) != without_suffix(arch)) continue;
    auto& slot = known[std::string(name)];
    if (!slot) {
      PINCH_ASSIGN(machine, parse(text, fmt::format("data/machines/{}.json", name)));
      slot = std::make_shared<const Machine>(std::move(machine));
    }
    return slot;
  }
  std::string names;
  for (const auto& [name, text] : kModels) names += fmt::format("{}{}", names.empty() ? "" : " ", name);
  return Error{ErrorCode::kUnsupported,
               fmt::format("no machine model for '{}'; there are {}. Give one of them, or add data/machines/{}.json",
                           arch, names, arch),
               ""};
}

std::vector<std::string> Machine::instructions() const {
  std::vector<std::string> names;
  names.reserve(rows_.size());
  for (const auto& [match, row] : rows_) names.push_back(match);
  std::sort(names.begin(), names.end());
  return names;
}

Cost Machine::cost(const Instruction& instruction) const {
  constexpr auto kIssueSlot = static_cast<std::size_t>(Pipe::kIssue);
  Cost cost;
  cost.uses[kIssueSlot] = 1;
  std::string key(instruction.mnemonic);
  while (!key.empty()) {
    if (const auto found = rows_.find(key); found != rows_.end()) {
      const Row& row = found->second;
      cost = row.cost;
      if (cost.uses[kIssueSlot] < 1) cost.uses[kIssueSlot] = 1;
      if (row.by_width) {
        for (std::size_t p = kIssueSlot + 1; p < cost.uses.size(); ++p)
          cost.uses[p] *= static_cast<float>(words_moved(instruction));
      }
      if (row.tensor_cycles_per_n > 0)
        cost.uses[static_cast<std::size_t>(Pipe::kTensor)] =
            row.tensor_cycles_per_n * static_cast<float>(matrix_n(instruction.mnemonic));
      return cost;
    }
    const auto dot = key.rfind('.');
    if (dot == std::string::npos) break;
    key.resize(dot);
  }
  return cost;
}

}  // namespace pinch::sass
