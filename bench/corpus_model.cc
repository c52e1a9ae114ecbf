// Writes a machine model (schema pinch-probe/1) from loops that were timed on a device: rates and latencies of the
// corpus loops with one kind of instruction, each proved by counting its opcode in the cubin that was run, and overlaps
// of its loops with two.
//
//     corpus_model data/sass/h200_loops.cubin data/sass/h200_loops.csv TOOLS DATE >loops.json
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "bench/sass_corpus/measurements.h"
#include "workbench/probe/loop_proof.h"
#include "workbench/probe/model.h"
#include "workbench/sass/input.h"
#include "workbench/sass/machine.h"

namespace {

using namespace pinch;

constexpr int kLanes = 32, kMostWarps = 32;

// An operation of bench/sass_corpus/generate.py, what `pinch probe` calls it, and what it compiles to.
struct Operation {
  const char *corpus, *name, *opcode;
  int wide = 32, chain = 8;  // in one iteration of NAME_wide and NAME_chain; 0: there is no such loop
};

constexpr Operation kOperations[] = {{"mufu", "ex2.f32", "MUFU.EX2"},
                                     {"ex2h", "ex2.f16x2", "MUFU.EX2", 64, 16},
                                     {"lg2", "lg2.f32", "MUFU.LG2"},
                                     {"tanh", "tanh.f32", "MUFU.TANH"},
                                     {"f2fp", "cvt.bf16x2", "F2FP"},
                                     {"f2fp8", "cvt.e4m3x2.masked", "F2FP"},
                                     {"unpack8", "unpack.e4m3x2", "F2FP"},
                                     {"ffma", "ffma", "FFMA"},
                                     {"fmul", "fmul", "FMUL"},
                                     {"fadd", "fadd", "FADD"},
                                     {"fmnmx", "fmax", "FMNMX"},
                                     {"hfma2", "hfma2", "HFMA2"},
                                     {"bfma2", "hfma2.bf16", "HFMA2"},

                                     {"imad", "imad", "IMAD"},
                                     {"imadhi", "imad.hi", "IMAD.HI"},
                                     {"lop3", "lop3", "LOP3"},
                                     {"prmt", "prmt", "PRMT"},
                                     {"shf", "shf", "SHF"},
                                     {"popc", "popc", "POPC"},
                                     {"i2f", "cvt.i2f", "I2FP"},
                                     {"f2i", "cvt.f2i", "F2I"},
                                     {"shfl", "shfl", "SHFL"},
                                     {"redux", "redux", "REDUX"},
                                     {"lds", "lds.32", "LDS"},
                                     {"lds128", "lds.128", "LDS", 16, 0},
                                     {"sts", "sts.32", "STS", 16, 0},
                                     {"hmma", "mma.bf16", "HMMA", 16, 8}};

class Builder {
 public:
  using ByWarps = std::map<std::string, std::map<int, double>>;
  Builder(const sass::Program& program, ByWarps cycles, ByWarps spreads)
      : program_(program), cycles_(std::move(cycles)), spreads_(std::move(spreads)) {}

  probe::Model build(const std::string& tools, const std::string& date) {
    model_.name = "h200-rates";
    model_.device = "NVIDIA H200";
    model_.arch = "sm_90a";
    model_.date = date;
    model_.tools = {{"with", tools}};
    for (const Operation& op : kOperations) {
      const std::string wide = std::string(op.corpus) + "_wide", chain = std::string(op.corpus) + "_chain";
      if (op.wide > 0) {
        const auto cycles = at(wide, kMostWarps);
        add(op, op.name, "lanes/clk/SM", wide, op.wide, kMostWarps,
            cycles > 0 ? kLanes * kMostWarps * op.wide / cycles : 0,
            "32 warps of one SM, counter and branch of the loop included");
        if (cycles > 0) alone_[op.corpus] = cycles / op.wide;
      }
      if (op.chain > 0)
        add(op, std::string(op.name) + ".latency", "cycles", chain, op.chain, 1, at(chain, 1) / op.chain,
            "a chain on one warp, loop included");
    }
    for (const auto& [loop, by_warps] : cycles_) pair(loop);
    return model_;
  }

 private:
  double at(const std::string& loop, int warps) const {
    const auto found = cycles_.find(loop);
    if (found == cycles_.end()) return 0;
    const auto cycles = found->second.find(warps);
    return cycles == found->second.end() ? 0 : cycles->second;
  }

  std::vector<probe::Proof> prove(const std::string& loop, const std::vector<probe::Timed>& timed) const {
    const auto kernel = std::find_if(program_.kernels.begin(), program_.kernels.end(),
                                     [&](const sass::Kernel& k) { return k.name == loop; });
    return probe::prove(kernel == program_.kernels.end() ? sass::Kernel{} : *kernel, timed, /*by_map=*/true);
  }

  void add(const Operation& op, const std::string& name, const char* unit, const std::string& loop, int expected,
           int warps, double value, const char* how) {
    if (cycles_.count(loop) == 0) return;
    probe::Proof proof = prove(loop, {{op.opcode, expected}})[0];
    proof.others += 3;  // the loop's ISETP, UIADD3 and BRA, which no difference of two lengths takes out
    if (proof.instead.empty()) proof.instead = "ISETP x 1";
    probe::Entry entry;
    entry.name = name;
    entry.opcode = op.opcode;
    entry.unit = unit;
    entry.method =
        fmt::format("growth of the loop {} from 200 to 1000 iterations by clock64, median of 7; {}", loop, how);
    entry.source = "measured by bench/sass_corpus: data/sass/h200_loops.csv";
    entry.device = model_.device;
    entry.date = model_.date;
    entry.tools = model_.tools.at("with");
    entry.spread = spreads_.at(loop).at(warps);
    mark_spread(entry);
    entry.proved = proof.proved();
    entry.proof = to_string(proof);
    if (proof.proved() && value > 0) entry.value = value;
    // The mixes of the corpus are too uneven to tell units apart: the unit is that of the rates in sm_90a.json.
    sass::Instruction instruction;
    instruction.mnemonic = op.opcode;
    const auto cost = sass::Machine::of("sm_90a").value()->cost(instruction);
    const auto busiest = std::max_element(cost.uses.begin() + 1, cost.uses.end());
    if (*busiest > 0) entry.group = sass::name_of(static_cast<sass::Pipe>(busiest - cost.uses.begin()));
    model_.entries.push_back(std::move(entry));
  }

  // "mufu8_f2fp8_spread": eight of one and eight of the other, evenly mixed.
  void pair(const std::string& loop) {
    constexpr std::string_view kSuffix = "_spread";
    if (loop.size() < kSuffix.size() || loop.substr(loop.size() - kSuffix.size()) != kSuffix) return;
    const std::string both = loop.substr(0, loop.size() - kSuffix.size());
    for (const Operation& a : kOperations) {
      for (const Operation& b : kOperations) {
        const std::string first(a.corpus), second(b.corpus);
        if (both.rfind(first, 0) != 0) continue;
        char* end = nullptr;
        const long na = std::strtol(both.c_str() + first.size(), &end, 10);
        if (na <= 0 || std::string(end).rfind("_" + second, 0) != 0) continue;
        char* rest = nullptr;
        const long nb = std::strtol(end + 1 + second.size(), &rest, 10);
        if (nb <= 0 || *rest != 0 || alone_.count(first) == 0 || alone_.count(second) == 0) continue;
        const double mixed = at(loop, kMostWarps);
        const auto proofs = prove(loop, {{a.opcode, static_cast<int>(na)}, {b.opcode, static_cast<int>(nb)}});
        const bool proved = proofs[0].proved() && proofs[1].proved();
        if (mixed <= 0 || !proved) continue;
        const double of_a = static_cast<double>(na) * alone_.at(first),
                     of_b = static_cast<double>(nb) * alone_.at(second);
        model_.pairs.push_back(
            {a.name, b.name, (of_a + of_b) / mixed, (of_a + of_b) / std::max(of_a, of_b), 0, true, ""});
      }
    }
  }

  const sass::Program& program_;
  ByWarps cycles_, spreads_;
  std::map<std::string, double> alone_;  // cycles of one instruction of all warps
  probe::Model model_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: corpus_model CUBIN CSV TOOLS DATE\n");
    return 2;
  }
  sass::InputOptions input;
  input.disassembler = "none";
  const auto program = sass::read_program(argv[1], input);
  if (!program.ok()) {
    fmt::print(stderr, "{}\n", program.error().message());
    return 3;
  }
  const probe::Model model =
      Builder(*program, corpus::read_measurements(argv[2]), corpus::read_spreads(argv[2])).build(argv[3], argv[4]);
  fmt::print("{}\n", to_json(model).dump(2));
  int failed = 0;
  for (const probe::Entry& entry : model.entries) {
    if (entry.value) continue;
    ++failed;
    fmt::print(stderr, "not_proved {}: {}\n", entry.name, entry.proof);
  }
  return failed == 0 ? 0 : 1;
}
