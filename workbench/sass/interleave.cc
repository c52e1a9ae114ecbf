#include "workbench/sass/interleave.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <numeric>
#include <optional>

#include "workbench/sass/operands.h"

namespace pinch::sass {
namespace {

// A pipe by its name, or the instructions of a mnemonic.
class Unit {
 public:
  explicit Unit(const std::string& name) : name_(name) {
    for (int p = 1; p < kPipes; ++p) {
      if (name_of(static_cast<Pipe>(p)) == name) pipe_ = static_cast<std::size_t>(p);
    }
  }
  [[nodiscard]] bool has(const Instruction& instruction, const Cost& cost) const {
    return pipe_ ? cost.uses[*pipe_] > 0 : instruction.known() && instruction.is(name_);
  }

 private:
  const std::string& name_;
  std::optional<std::size_t> pipe_;
};

bool is_load(const Instruction& i) {
  const std::string_view base = i.base();
  return base == "LDG" || base == "LDS" || base == "LDSM" || base == "LD" || base == "LDL" || base == "LDC";
}

bool overlaps(const RegisterRange& a, const RegisterRange& b) {
  return a.file == b.file && a.first < b.first + b.count && b.first < a.first + a.count;
}

}  // namespace

Interleaving interleaving(const LoopCode& code, const UnitPair& pair) {
  const Unit first(pair.first), second(pair.second);
  Interleaving found;
  int last = 0, run = 0;
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    const Instruction& instruction = *code.instructions[i];
    const int unit = first.has(instruction, code.costs[i]) ? 1 : second.has(instruction, code.costs[i]) ? 2 : 0;
    if (unit == 0) continue;
    ++(unit == 1 ? found.first_count : found.second_count);
    if (unit != last) {
      ++found.runs;
      run = 0;
    }
    last = unit;
    found.longest_run = std::max(found.longest_run, ++run);
  }
  found.transitions = std::max(0, found.runs - 1);
  return found;
}

LoadDistance load_distance(const LoopCode& code) {
  LoadDistance found;
  const std::size_t n = code.instructions.size();
  const std::vector<Access>& accesses = code.accesses;
  constexpr std::size_t kFarthest = 4096;  // a use farther away hides any latency
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!is_load(*code.instructions[i]) || accesses[i].writes.empty()) continue;
    const RegisterRange target = *accesses[i].writes.begin();
    for (std::size_t d = 1; d <= std::min(n, kFarthest); ++d) {
      const Access& later = accesses[(i + d) % n];
      const auto touches = [&](const RegisterRange& r) { return overlaps(r, target); };
      if (std::any_of(later.reads.begin(), later.reads.end(), touches)) {
        found.shortest = found.loads == 0 ? static_cast<int>(d) : std::min(found.shortest, static_cast<int>(d));
        ++found.loads;
        sum += static_cast<double>(d);
        break;
      }
      if (std::any_of(later.writes.begin(), later.writes.end(), touches)) break;  // overwritten unread
    }
  }
  if (found.loads > 0) found.mean = sum / found.loads;
  return found;
}

int unroll_factor(const LoopCode& code) {
  std::map<std::string_view, int> counts;
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    const Cost& cost = code.costs[i];
    const auto uses = [&](Pipe pipe) { return cost.uses[static_cast<std::size_t>(pipe)] > 0; };
    if (uses(Pipe::kLsu) || uses(Pipe::kXu) || uses(Pipe::kTensor)) ++counts[code.instructions[i]->mnemonic];
  }
  int factor = 0;
  for (const auto& [mnemonic, count] : counts) factor = std::gcd(factor, count);
  return std::max(factor, 1);
}

int reused_operands(const LoopCode& code) {
  int count = 0;
  for (const Instruction* instruction : code.instructions) {
    if (instruction->has_word) count += static_cast<int>(std::bitset<4>(instruction->control.reuse).count());
  }
  return count;
}

}  // namespace pinch::sass
