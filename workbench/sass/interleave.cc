#include "workbench/sass/interleave.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

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
  constexpr int kRegisters = 256;
  LoadDistance found;
  const std::size_t n = code.instructions.size();
  const std::vector<Access>& accesses = code.accesses;
  std::array<std::size_t, kRegisters> loaded{};  // by register: when the load that it waits for was issued, from 1
  std::vector<bool> is_done(n, false);           // by load: used, or overwritten unread
  double sum = 0;
  const auto for_each_waiting = [&](const RegisterRange& range, auto visit) {
    if (range.file != RegisterFile::kGeneral) return;
    for (int r = range.first; r < std::min(range.first + range.count, kRegisters); ++r) {
      const std::size_t since = std::exchange(loaded[static_cast<std::size_t>(r)], 0);
      if (since != 0 && !is_done[since - 1]) visit(since);
    }
  };
  for (std::size_t time = 1; time <= 2 * n; ++time) {  // once more round for what is used in the next iteration
    const std::size_t i = (time - 1) % n;
    for (const RegisterRange& read : accesses[i].reads) {
      for_each_waiting(read, [&](std::size_t since) {
        const int distance = static_cast<int>(time - since);
        found.shortest = found.loads == 0 ? distance : std::min(found.shortest, distance);
        ++found.loads;
        sum += distance;
        is_done[since - 1] = true;
      });
    }
    for (const RegisterRange& write : accesses[i].writes)
      for_each_waiting(write, [&](std::size_t since) { is_done[since - 1] = true; });
    if (time > n || accesses[i].writes.empty() || !is_load(*code.instructions[i])) continue;
    const RegisterRange target = *accesses[i].writes.begin();
    for (int r = target.first;
         target.file == RegisterFile::kGeneral && r < std::min(target.first + target.count, kRegisters); ++r)
      loaded[static_cast<std::size_t>(r)] = time;
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
