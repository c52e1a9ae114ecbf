#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <regex>

#include "src/core/mapped_file.h"
#include "workbench/probe/cuda_probe.h"
#include "workbench/sass/flow.h"
#include "workbench/sass/input.h"
#include "workbench/sass/tools.h"

namespace pinch::probe {
namespace {

constexpr int kOperations = 64;  // of the shorter loop; the longer has twice as many
constexpr int kChainCounts[] = {1, 2, 4, 8, 16};

int sm_of(const std::string& arch) {
  return std::atoi(arch.c_str() + 3);
}

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Registers of one chain: its own and its scratch, so that no chain waits for another.
std::string operation(const CudaProbe& probe, int slot) {
  std::string text = probe.ptx;
  const char* scratch[][2] = {{"{x}", "x"}, {"{i}", "i"}, {"{j}", "j"}, {"{o}", "o"},
                              {"{k}", "k"}, {"{l}", "l"}, {"{b}", "b"}, {"{t}", "t"}};
  for (const auto& [mark, prefix] : scratch) replace_all(text, mark, fmt::format("%{}{}", prefix, slot));
  const char* invariant[][2] = {{"{f}", "%fa"}, {"{h}", "%fb"}, {"{r}", "%ra"}, {"{s}", "%rb"},
                                {"{p}", "%pa"}, {"{q}", "%pb"}, {"{u}", "%ua"}, {"{v}", "%ub"}};
  for (const auto& [mark, name] : invariant) replace_all(text, mark, name);
  std::string floats;
  for (int i = 0; i < probe.accumulators(); ++i) floats += fmt::format("{}%m{}_{}", i == 0 ? "{" : ", ", slot, i);
  replace_all(text, "{m}", floats + "}");
  replace_all(text, "{c}", fmt::format("%c{}", slot));
  return text;
}

const char* register_type(char chain) {
  switch (chain) {
    case 'f':
      return ".f32";
    case 'd':
    case 'g':
      return ".b64";
    default:
      return ".b32";
  }
}

std::string start_value(const CudaProbe& probe, int slot) {
  switch (probe.chain) {
    case 'f':
      return fmt::format("\tadd.f32 %c{0}, %seed, 0f{1:08x};\n", slot, 0x3f800000 + (slot << 16));
    case 'd':
      return fmt::format("\tadd.f32 %x{0}, %seed, 0f{1:08x};\n\tmov.b64 %c{0}, {{%x{0}, %x{0}}};\n", slot,
                         0x3f800000 + (slot << 16));
    case 'm':
    case 'w': {
      std::string text;
      for (int i = 0; i < probe.accumulators(); ++i)
        text += fmt::format("\tadd.f32 %m{}_{}, %seed, 0f{:08x};\n", slot, i, 0x3f800000 + (slot << 16));
      return text;
    }
    case 'a':  // 16 bytes a thread, over and over
      return fmt::format(
          "\tmov.u32 %c{0}, memory;\n\tand.b32 %i{0}, %thread, 511;\n\tmad.lo.u32 %c{0}, %i{0}, 16, %c{0};\n", slot);
    case 'g':
      return fmt::format(
          "\tcvt.u64.u32 %c{0}, %thread;\n\tmad.lo.u64 %c{0}, %c{0}, 8, %words;\n\tadd.u64 %c{0}, %c{0}, {1};\n", slot,
          slot * 8192);
    default:
      return fmt::format("\tadd.u32 %c{0}, %thread, {0};\n", slot);
  }
}

std::string fold(const CudaProbe& probe, int slot) {
  switch (probe.chain) {
    case 'f':
      return fmt::format("\tmov.b32 %i{0}, %c{0};\n\txor.b32 %sum, %sum, %i{0};\n", slot);
    case 'd':
    case 'g':
      return fmt::format("\tcvt.u32.u64 %i{0}, %c{0};\n\txor.b32 %sum, %sum, %i{0};\n", slot);
    case 'm':
    case 'w': {
      std::string text;
      for (int i = 0; i < probe.accumulators(); ++i)
        text += fmt::format("\tmov.b32 %i{0}, %m{0}_{1};\n\txor.b32 %sum, %sum, %i{0};\n", slot, i);
      return text;
    }
    case 's':
      return "";
    default:
      return fmt::format("\txor.b32 %sum, %sum, %c{};\n", slot);
  }
}

// Parameters: clocks (two 64-bit words a warp), a sink, words that hold their own addresses, iterations.
std::string kernel_text(const CudaKernel& kernel) {
  const int count = static_cast<int>(kernel.probes.size()), slots = count * kernel.chains;
  const auto probe_of = [&](int slot) { return kernel.probes[static_cast<std::size_t>(slot / kernel.chains)]; };
  std::string text = fmt::format(
      ".visible .entry {}(.param .u64 p_clocks, .param .u64 p_sink, .param .u64 p_words, .param .u32 p_iterations)\n"
      ".maxntid {}\n{{\n",
      kernel.name, kernel.most_threads());
  text +=
      "\t.shared .align 1024 .b8 memory[8192];\n\t.shared .align 8 .b64 waited;\n\t.reg .pred %more, %fill;\n\t.reg "
      ".b32 %thread, %width, %left, %sum, "
      "%ra, %rb, "
      "%w, %at;\n"
      "\t.reg .f32 %seed, %fa, %fb;\n\t.reg .b64 %ua, %ub, %state, %words, %clocks, %sink, %pa, %pb, %start, %end, "
      "%offset;\n";
  for (int slot = 0; slot < slots; ++slot) {
    text += fmt::format(
        "\t.reg {1} %c{0};\n\t.reg .f32 %x{0};\n\t.reg .b32 %i{0}, %j{0}, %o{0};\n\t.reg .b16 %k{0}, %l{0};\n\t.reg "
        ".b8 %b{0};\n\t.reg .pred %t{0};\n",
        slot, register_type(probe_of(slot)->chain));
    for (int i = 0; i < probe_of(slot)->accumulators(); ++i) text += fmt::format("\t.reg .f32 %m{}_{};\n", slot, i);
  }
  text +=
      "\tmov.u32 %thread, %tid.x;\n\tmov.u32 %width, %ntid.x;\n\tld.param.u64 %words, [p_words];\n\tld.param.u64 "
      "%clocks, [p_clocks];\n\tld.param.u64 "
      "%sink, [p_sink];\n"
      "\tld.param.u32 %left, [p_iterations];\n\tcvta.to.global.u64 %words, %words;\n\tcvta.to.global.u64 %clocks, "
      "%clocks;\n"
      "\tcvta.to.global.u64 %sink, %sink;\n"
      "\tcvt.rn.f32.u32 %seed, %thread;\n\tmul.f32 %seed, %seed, 0f38000000;\n"
      "\tadd.f32 %fa, %seed, 0f3f000000;\n\tadd.f32 %fb, %seed, 0f3e800000;\n"
      "\tadd.u32 %ra, %thread, 0x3c003c01;\n\tadd.u32 %rb, %left, 0x3123;\n"
      "\tmov.b64 %pa, {%fa, %fb};\n\tmov.b64 %pb, {%fb, %fa};\n"
      // Shared words hold the address of their 16 bytes.
      "\tmov.u32 %w, %thread;\n\tmov.u32 %sum, memory;\nFILL:\n\tshl.b32 %at, %w, 2;\n\tand.b32 %at, %at, "
      "0xfffffff0;\n\tadd.u32 %at, %at, %sum;\n"
      "\tshl.b32 %rb, %w, 2;\n\tadd.u32 %rb, %rb, %sum;\n\tst.shared.u32 [%rb], %at;\n\tadd.u32 %w, %w, %width;\n"
      "\tsetp.lt.u32 %fill, %w, 2048;\n\t@%fill bra FILL;\n\tadd.u32 %rb, %left, 0x3123;\n\tmov.u32 %sum, 0;\n";
  for (int slot = 0; slot < slots; ++slot) text += start_value(*probe_of(slot), slot);
  const bool products = kernel.probes[0]->chain == 'w', barriers = kernel.probes[0]->chain == 's';
  if (products) {  // two tiles without swizzle, whose core matrices follow each other: 128 bytes and 256 bytes apart
    text +=
        "\tmov.u32 %w, memory;\n\tshr.u32 %w, %w, 4;\n\tand.b32 %w, %w, 0x3fff;\n\tcvt.u64.u32 %ua, %w;\n"
        "\tor.b64 %ua, %ua, 0x0000001000080000;\n\tmov.b64 %ub, %ua;\n";
  }
  if (barriers) {
    text +=
        "\tsetp.ne.u32 %fill, %thread, 0;\n\t@%fill bra READY;\n\tmbarrier.init.shared.b64 [waited], %width;\n"
        "READY:\n";
  }
  text += "\tbar.sync 0;\n\tmov.u64 %start, %clock64;\nLOOP:\n\t.pragma \"nounroll\";\n";
  if (products) text += "\twgmma.fence.sync.aligned;\n";
  for (int i = 0; i < kernel.operations; ++i) {
    const int p = i % count;
    text += "\t{ " +
            operation(*kernel.probes[static_cast<std::size_t>(p)], p * kernel.chains + i / count % kernel.chains) +
            " }\n";
  }
  if (products) text += "\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n";
  text += "\tsub.u32 %left, %left, 1;\n\tsetp.ne.u32 %more, %left, 0;\n\t@%more bra LOOP;\n\tmov.u64 %end, %clock64;\n";
  for (int slot = 0; slot < slots; ++slot) text += fold(*probe_of(slot), slot);
  text +=
      "\tmul.wide.u32 %offset, %thread, 4;\n\tadd.u64 %offset, %offset, %sink;\n\tst.global.u32 [%offset], %sum;\n"
      "\tshr.u32 %w, %thread, 5;\n\tmul.wide.u32 %offset, %w, 16;\n\tadd.u64 %offset, %offset, %clocks;\n"
      "\tst.global.v2.u64 [%offset], {%start, %end};\n\tret;\n}\n\n";
  return text;
}

std::string arch_list() {
  return fmt::format("{}", fmt::join(cuda_archs(), " "));
}

// With a disassembler every modifier of `opcode` must be there; the opcode map knows few of them.
bool is_opcode(const sass::Instruction& i, const std::string& opcode) {
  const auto dot = opcode.find('.');
  if (i.base() != opcode.substr(0, dot)) return false;
  if (dot == std::string::npos || i.mnemonic == i.base()) return true;
  return i.is(opcode);
}

}  // namespace

int CudaKernel::most_threads() const {
  const bool products = std::any_of(probes.begin(), probes.end(), [](const CudaProbe* p) { return p->chain == 'w'; });
  return products ? 128 : 1024;
}

bool CudaKernel::proved() const {
  return !proofs.empty() && std::all_of(proofs.begin(), proofs.end(), [](const Proof& p) { return p.proved(); });
}

Result<std::pair<std::string, std::vector<CudaKernel>>> write_ptx(const CudaOptions& options) {
  if (std::find(cuda_archs().begin(), cuda_archs().end(), options.arch) == cuda_archs().end())
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--arch '{}': probes are compiled for {}", options.arch, arch_list()), ""};
  const int sm = sm_of(options.arch);
  const std::regex only(options.only.empty() ? "." : options.only);
  std::vector<CudaKernel> kernels;
  std::map<std::string, const CudaProbe*> by_name;
  for (std::size_t p = 0; p < cuda_probes().size(); ++p) {
    const CudaProbe& probe = cuda_probes()[p];
    if (!probe.exists_on(sm)) continue;
    by_name[probe.name] = &probe;
    if (!std::regex_search(probe.name, only)) continue;
    for (const int chains : kChainCounts) {
      if (chains > probe.most_chains) break;
      for (const int operations : {kOperations, 2 * kOperations})
        kernels.push_back({fmt::format("probe{}_c{}_n{}", p, chains, operations), {&probe}, chains, operations, {}});
    }
  }
  if (kernels.empty()) {
    std::string names;
    for (const auto& [name, probe] : by_name) names += (names.empty() ? "" : " ") + name;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("no probe of {} matches --only '{}'; there are {}", options.arch, options.only, names),
                 ""};
  }
  for (std::size_t p = 0; options.pairs && p < cuda_pairs().size(); ++p) {
    const auto first = by_name.find(cuda_pairs()[p].first), second = by_name.find(cuda_pairs()[p].second);
    if (first == by_name.end() || second == by_name.end()) continue;
    if (!std::regex_search(first->first, only) || !std::regex_search(second->first, only)) continue;
    constexpr int kEach = 4;
    for (const int operations : {kOperations, 2 * kOperations})
      kernels.push_back(
          {fmt::format("pair{}_n{}", p, operations), {first->second, second->second}, kEach, operations, {}});
  }
  std::string text =
      fmt::format("{}.target {}\n.address_size 64\n\n", sm >= 100 ? ".version 8.8\n" : ".version 8.4\n", options.arch);
  for (const CudaKernel& kernel : kernels) text += kernel_text(kernel);
  return std::pair{std::move(text), std::move(kernels)};
}

Result<CudaModule> build_cuda(const CudaOptions& options) {
  PINCH_ASSIGN(written, write_ptx(options));
  const auto ptxas = sass::find_cuda_tool("ptxas");
  if (!ptxas)
    return Error{ErrorCode::kUnsupported, "compiling probes needs ptxas; install the CUDA toolkit or put ptxas on PATH",
                 ""};
  CudaModule module;
  module.arch = options.arch;
  module.kernels = std::move(written.second);
  PINCH_ASSIGN(version, sass::run_tool({*ptxas, "--version"}));
  const auto release = version.find("release ");
  if (release != std::string::npos)
    module.ptxas = version.substr(release + 8, version.find(',', release) - release - 8);
  PINCH_ASSIGN(source, sass::TemporaryFile::create(".ptx", written.first));
  PINCH_ASSIGN(cubin, sass::TemporaryFile::create(".cubin"));
  PINCH_TRY(sass::run_tool({*ptxas, "-arch=" + options.arch, "-O3", "-o", cubin.path(), source.path()}));
  PINCH_ASSIGN(image, MappedFile::open(cubin.path()));
  module.cubin =
      std::make_shared<const std::string>(reinterpret_cast<const char*>(image->bytes().data()), image->bytes().size());
  PINCH_TRY(prove(module, options));
  return module;
}

Result<void> prove(CudaModule& module, const CudaOptions& options) {
  sass::InputOptions input;
  input.disassembler = options.disassembler;
  if (input.disassembler.empty()) input.disassembler = sass::find_cuda_tool("nvdisasm").value_or("none");
  PINCH_ASSIGN(program, sass::read_program_bytes(module.cubin, "probes", input));
  module.names = program.kernels.front().mnemonics_from;
  std::map<std::string_view, const sass::Kernel*> by_name;
  for (const sass::Kernel& kernel : program.kernels) by_name[kernel.name] = &kernel;
  for (CudaKernel& kernel : module.kernels) {
    kernel.proofs.clear();
    std::vector<const sass::Instruction*> body;
    if (const auto found = by_name.find(kernel.name); found != by_name.end()) {
      const sass::Flow flow = sass::analyse_flow(*found->second);
      const sass::Loop* longest = nullptr;
      for (const sass::Loop& loop : flow.loops) {
        if (longest == nullptr || loop.path.size() > longest->path.size()) longest = &loop;
      }
      if (longest != nullptr) {
        for (const int i : longest->path) body.push_back(&found->second->instructions[static_cast<std::size_t>(i)]);
      }
    }
    for (const CudaProbe* probe : kernel.probes) {
      Proof proof;
      proof.opcode = probe->opcode;
      for (const CudaProbe* other : kernel.probes) {  // two kinds of one opcode cannot be told apart
        if (other->opcode == proof.opcode)
          proof.expected += kernel.operations / static_cast<int>(kernel.probes.size()) * other->per_op;
      }
      std::map<std::string, int> others;
      for (const sass::Instruction* i : body) {
        if (is_opcode(*i, proof.opcode)) {
          ++proof.found;
        } else if (std::none_of(kernel.probes.begin(), kernel.probes.end(),
                                [&](const CudaProbe* p) { return is_opcode(*i, p->opcode); })) {
          ++others[i->known() ? std::string(i->base()) : "unknown"];
        }
      }
      // The counter, its compare and the branch are the loop's own.
      for (const char* own : {"BRA", "ISETP", "UISETP", "UIADD3", "IADD3", "VIADD"}) {
        const auto found = others.find(own);
        if (found != others.end() && --found->second == 0) others.erase(found);
      }
      int most = 0;
      for (const auto& [name, count] : others) {
        proof.others += count;
        if (count <= most) continue;
        most = count;
        proof.instead = fmt::format("{} x {}", name, count);
      }
      kernel.proofs.push_back(std::move(proof));
    }
  }
  return {};
}

}  // namespace pinch::probe
