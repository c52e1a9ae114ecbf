#include "workbench/probe/loop_proof.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "workbench/sass/flow.h"

namespace pinch::probe {
namespace {

// True where every modifier of a begins one of b's, if b has any: "HGMMA.64x128" of "HGMMA.64x128x16".
bool is_shortened(std::string_view a, const std::string& b) {
  if (b.find('.') == std::string::npos) return a.substr(0, a.find('.')) == b;
  for (std::size_t dot = a.find('.'); dot != std::string_view::npos;) {
    const std::size_t next = a.find('.', dot + 1);
    if (b.find(a.substr(dot, next - dot)) == std::string::npos) return false;
    dot = next;
  }
  return a.substr(0, a.find('.')) == std::string_view(b).substr(0, b.find('.'));
}

// "MUFU.EX2" is neither "MUFU.EX2.F16" nor the reverse. The map knows IMAD.HI and IMAD.WIDE, which have words of their
// own, and not what else follows them.
bool is_opcode(const sass::Instruction& i, const std::string& opcode, bool by_map) {
  if (!by_map) return i.mnemonic == opcode;
  if (i.is("IMAD")) return i.mnemonic == opcode.substr(0, opcode.find('.', opcode.find('.') + 1));
  return is_shortened(i.mnemonic, opcode);
}

bool is_timed(const sass::Instruction& i, const Timed& timed, bool by_map) {
  return is_opcode(i, timed.opcode, by_map) || (!timed.also.empty() && is_opcode(i, timed.also, by_map));
}

// What is timed is the loop: the clock is read once ahead of it, once behind its head, and never in it.
bool is_clocked(const sass::Kernel& kernel, const sass::Flow& flow, const sass::Loop& loop) {
  int ahead = 0, behind = 0;
  for (int b = 0; b < static_cast<int>(flow.blocks.size()); ++b) {
    const sass::Block& block = flow.blocks[static_cast<std::size_t>(b)];
    for (int at = block.first; at < block.last; ++at) {
      if (kernel.instructions[static_cast<std::size_t>(at)].operands.find("SR_CLOCK") == std::string_view::npos)
        continue;
      if (std::binary_search(loop.blocks.begin(), loop.blocks.end(), b)) return false;
      ++(at < flow.blocks[static_cast<std::size_t>(loop.header)].first ? ahead : behind);
    }
  }
  return ahead == 1 && behind == 1;
}

}  // namespace

std::vector<Proof> prove(const sass::Kernel& kernel, const std::vector<Timed>& timed, bool by_map) {
  return prove(kernel, timed, by_map, {});
}

std::vector<Proof> prove(const sass::Kernel& kernel, const std::vector<Timed>& timed, bool by_map,
                         const Timed& beside) {
  const std::size_t count = timed.size();
  std::vector<Proof> proofs(count);
  std::vector<std::vector<bool>> mixed(count, std::vector<bool>(count));  // named alike
  std::map<std::string, int> others;
  int beside_found = 0;

  const sass::Flow flow = sass::analyse_flow(kernel);
  const auto longest =
      std::max_element(flow.loops.begin(), flow.loops.end(),
                       [](const sass::Loop& a, const sass::Loop& b) { return a.path.size() < b.path.size(); });
  for (const int at : longest == flow.loops.end() ? std::vector<int>() : longest->path) {
    const sass::Instruction& i = kernel.instructions[static_cast<std::size_t>(at)];
    std::vector<std::size_t> which;
    for (std::size_t t = 0; t < count; ++t) {
      if (is_timed(i, timed[t], by_map)) which.push_back(t);
    }
    for (const std::size_t t : which) {
      ++proofs[t].found;
      proofs[t].of_also += !timed[t].also.empty() && !is_opcode(i, timed[t].opcode, by_map);
      for (const std::size_t other : which) mixed[t][other] = true;
    }
    if (!beside.opcode.empty()) beside_found += by_map ? is_shortened(i.mnemonic, beside.opcode) : i.is(beside.opcode);
    if (which.empty()) ++others[i.known() ? std::string(i.base()) : "unknown"];
  }
  // The counter, its compare and the branch are the loop's own.
  for (const char* own : {"BRA", "ISETP", "UISETP", "UIADD3", "IADD3", "VIADD"}) {
    const auto found = others.find(own);
    if (found != others.end() && --found->second == 0) others.erase(found);
  }
  const auto most =
      std::max_element(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  for (std::size_t t = 0; t < count; ++t) {
    Proof& proof = proofs[t];
    proof.opcode = timed[t].opcode;
    proof.also = timed[t].also;
    proof.base_only = by_map;
    proof.clocked = by_map || longest == flow.loops.end() || is_clocked(kernel, flow, *longest);
    proof.expected = timed[t].count;
    for (std::size_t other = 0; other < count; ++other) {
      if (other != t && (mixed[t][other] || timed[other].opcode == proof.opcode)) proof.expected += timed[other].count;
    }
    for (const auto& [name, times] : others) proof.others += times;
    if (most != others.end()) proof.instead = fmt::format("{} x {}", most->first, most->second);
    proof.beside = beside.opcode;
    proof.beside_expected = beside.count;
    proof.beside_found = beside_found;
  }
  return proofs;
}

}  // namespace pinch::probe
