#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "workbench/pattern/pattern.h"
#include "workbench/probe/cuda_probe.h"

namespace pinch::probe {
namespace {

constexpr int kChainCounts[] = {1, 2, 4, 8, 16};
constexpr int kSharedBytes = 8192, kStoredAt = 131072;  // where copies to global memory go, behind what loads chase

int sm_of(const std::string& arch) {
  return std::atoi(arch.c_str() + 3);
}

// Of the shorter loop; the longer has twice as many. Products take 16 to 128 cycles, and a copy is ten instructions and
// two loops.
int least_operations(const CudaProbe& probe) {
  switch (probe.chain) {
    case Chain::kWarpgroup:
      return 8;
    case Chain::kProduct:
    case Chain::kBulk:
      return 16;
    default:
      return 32;
  }
}

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Registers of one chain: its own and its scratch, so that no chain waits for another.
std::string operation(const CudaProbe& probe, int slot, int chains) {
  std::string text = probe.ptx;
  const char* scratch[][2] = {{"{x}", "x"}, {"{i}", "i"}, {"{j}", "j"}, {"{o}", "o"}, {"{k}", "k"},
                              {"{l}", "l"}, {"{b}", "b"}, {"{t}", "t"}, {"{y}", "y"}};
  for (const auto& [mark, prefix] : scratch) replace_all(text, mark, fmt::format("%{}{}", prefix, slot));
  const char* invariant[][2] = {{"{f}", "%fa"}, {"{h}", "%fb"}, {"{r}", "%ra"},
                                {"{s}", "%rb"}, {"{p}", "%pa"}, {"{q}", "%pb"},
                                {"{u}", "%ua"}, {"{v}", "%ub"}, {"{a}", "{%ra, %rb, %rc, %rd}"}};
  for (const auto& [mark, name] : invariant) replace_all(text, mark, name);
  std::string floats;
  for (int i = 0; i < probe.accumulators(); ++i) {
    floats += fmt::format("{}%m{}_{}", i == 0 ? "{" : ", ", slot, i);
    replace_all(text, fmt::format("{{m{}}}", i), fmt::format("%m{}_{}", slot, i));
  }
  replace_all(text, "{m}", floats + "}");
  replace_all(text, "{n}", fmt::format("{}", chains - 1));
  replace_all(text, "{c}", fmt::format("%c{}", slot));
  return text;
}

const char* register_type(Chain chain) {
  switch (chain) {
    case Chain::kFloat:
      return ".f32";
    case Chain::kDouble:
    case Chain::kGlobal:
      return ".b64";
    default:
      return ".b32";
  }
}

int stride_of(Words words) {
  return words == Words::k4Bytes ? 4 : words == Words::k8Bytes ? 8 : 16;
}

std::string start_value(const CudaProbe& probe, int slot) {
  const int one = 0x3f800000 + (slot << 16);  // about 1, another for every chain
  switch (probe.chain) {
    case Chain::kFloat:
      return fmt::format("\tadd.f32 %c{0}, %seed, 0f{1:08x};\n", slot, one);
    case Chain::kDouble:
      return fmt::format("\tadd.f32 %x{0}, %seed, 0f{1:08x};\n\tmov.b64 %c{0}, {{%x{0}, %x{0}}};\n", slot, one);
    case Chain::kProduct:
    case Chain::kWarpgroup: {
      std::string text;
      for (int i = 0; i < probe.accumulators(); ++i)
        text += fmt::format("\tadd.f32 %m{}_{}, %seed, 0f{:08x};\n", slot, i, one);
      return text;
    }
    case Chain::kShared:
      return fmt::format(
          "\tmov.u32 %c{0}, memory;\n\tand.b32 %i{0}, %thread, {1};\n\tmad.lo.u32 %c{0}, %i{0}, {2}, %c{0};\n", slot,
          kSharedBytes / stride_of(probe.words) - 1, stride_of(probe.words));
    case Chain::kGlobal:
      return fmt::format(
          "\tcvt.u64.u32 %c{0}, %thread;\n\tmad.lo.u64 %c{0}, %c{0}, 8, %words;\n\tadd.u64 %c{0}, %c{0}, {1};\n", slot,
          slot * 8192);
    case Chain::kBulk:  // the wait for a barrier's phase before its first passes at once
      return fmt::format(
          "\tmov.u32 %c{0}, 1;\n\tmov.u32 %i{0}, memory;\n\tadd.u32 %i{0}, %i{0}, {1};\n\tmov.u32 %j{0}, waited;\n"
          "\tadd.u32 %j{0}, %j{0}, {2};\n\tadd.u64 %y{0}, %words, {3};\n\tmbarrier.init.shared.b64 [%j{0}], 1;\n",
          slot, slot * probe.bytes, slot * 8, kStoredAt + slot * probe.bytes);
    default:
      return fmt::format("\tadd.u32 %c{0}, %thread, {0};\n", slot);
  }
}

// All bits of every chain count, else ptxas drops the instructions that make the others.
std::string fold(const CudaProbe& probe, int slot) {
  switch (probe.chain) {
    case Chain::kFloat:
      return fmt::format("\tmov.b32 %i{0}, %c{0};\n\txor.b32 %sum, %sum, %i{0};\n", slot);
    case Chain::kDouble:
    case Chain::kGlobal:
      return fmt::format(
          "\tmov.b64 {{%i{0}, %j{0}}}, %c{0};\n\txor.b32 %sum, %sum, %i{0};\n\txor.b32 %sum, %sum, %j{0};\n", slot);
    case Chain::kProduct:
    case Chain::kWarpgroup: {
      std::string text;
      for (int i = 0; i < probe.accumulators(); ++i)
        text += fmt::format("\tmov.b32 %i{0}, %m{0}_{1};\n\txor.b32 %sum, %sum, %i{0};\n", slot, i);
      return text;
    }
    case Chain::kBarrier:
      return "";
    default:
      return fmt::format("\txor.b32 %sum, %sum, %c{};\n", slot);
  }
}

// %at: what word %w of shared memory, which begins at %sum, holds.
std::string word_value(Words words) {
  if (words == Words::kMatrix || words == Words::kTransposed) {
    // 512 bytes a warp, a row of 16 a lane; %at: the address of the warp's first row.
    const char* first = "\tand.b32 %at, %w, 0xffffff80;\n\tshl.b32 %at, %at, 2;\n\tadd.u32 %at, %at, %sum;\n";
    if (words == Words::kMatrix)
      return fmt::format("{}\tand.b32 %rc, %w, 31;\n\tmad.lo.u32 %at, %rc, 16, %at;\n", first);
    // Lane 4c + r/2 gets the half-words of rows r (even) and r + 1 in column c: its address, and 0 above it.
    return fmt::format(
        "{}\tshr.u32 %rc, %w, 2;\n\tand.b32 %rd, %rc, 1;\n\tand.b32 %rc, %rc, 6;\n\tmad.lo.u32 %at, %rc, 8, %at;\n"
        "\tand.b32 %rc, %w, 3;\n\tmad.lo.u32 %at, %rc, 128, %at;\n\tmad.lo.u32 %at, %at, 0x10001, 0x400000;\n"
        "\tsub.u32 %rd, %rd, 1;\n\tand.b32 %at, %at, %rd;\n",
        first);
  }
  return fmt::format("\tshl.b32 %at, %w, 2;\n\tand.b32 %at, %at, 0x{:08x};\n\tadd.u32 %at, %at, %sum;\n",
                     ~static_cast<unsigned>(stride_of(words) - 1));
}

// Parameters: clocks (two 64-bit words a warp), a sink, words that hold their own addresses, iterations.
std::string kernel_text(const CudaKernel& kernel) {
  const int count = static_cast<int>(kernel.probes.size()), slots = count * kernel.chains;
  const auto probe_of = [&](int slot) { return kernel.probes[static_cast<std::size_t>(slot / kernel.chains)]; };
  const auto any = [&](Chain chain) {
    return std::find_if(kernel.probes.begin(), kernel.probes.end(),
                        [&](const CudaProbe* p) { return p->chain == chain; }) != kernel.probes.end();
  };
  const bool copies = any(Chain::kBulk);
  Words words = Words::k16Bytes;
  for (const CudaProbe* probe : kernel.probes) {
    if (probe->chain == Chain::kShared) words = probe->words;
  }
  std::string text = fmt::format(
      ".visible .entry {}(.param .u64 p_clocks, .param .u64 p_sink, .param .u64 p_words, .param .u32 p_iterations)\n"
      ".maxntid {}\n{{\n\t.shared .align 1024 .b8 memory[{}];\n",
      kernel.name, kernel.thread_counts().back(), copies ? kBulkBytes : kSharedBytes);
  text +=
      "\t.shared .align 8 .b64 waited[16];\n\t.reg .pred %more, %fill;\n\t.reg .b32 %thread, %width, %left, %sum, %ra, "
      "%rb, %rc, %rd, %w, %at;\n\t.reg .f32 %seed, %fa, %fb;\n\t.reg .b64 %ua, %ub, %state, %words, %clocks, %sink, "
      "%pa, "
      "%pb, %start, %end, %offset;\n";
  for (int slot = 0; slot < slots; ++slot) {
    text += fmt::format(
        "\t.reg {1} %c{0};\n\t.reg .f32 %x{0};\n\t.reg .b32 %i{0}, %j{0}, %o{0};\n\t.reg .b16 %k{0}, %l{0};\n\t.reg "
        ".b8 %b{0};\n\t.reg .pred %t{0};\n\t.reg .b64 %y{0};\n",
        slot, register_type(probe_of(slot)->chain));
    for (int i = 0; i < probe_of(slot)->accumulators(); ++i) text += fmt::format("\t.reg .f32 %m{}_{};\n", slot, i);
  }
  text +=
      "\tmov.u32 %thread, %tid.x;\n\tmov.u32 %width, %ntid.x;\n\tld.param.u64 %words, [p_words];\n"
      "\tld.param.u64 %clocks, [p_clocks];\n\tld.param.u64 %sink, [p_sink];\n\tld.param.u32 %left, [p_iterations];\n"
      "\tcvta.to.global.u64 %words, %words;\n\tcvta.to.global.u64 %clocks, %clocks;\n"
      "\tcvta.to.global.u64 %sink, %sink;\n"
      "\tcvt.rn.f32.u32 %seed, %thread;\n\tmul.f32 %seed, %seed, 0f38000000;\n"
      "\tadd.f32 %fa, %seed, 0f3f000000;\n\tadd.f32 %fb, %seed, 0f3e800000;\n"
      "\tmov.b64 %pa, {%fa, %fb};\n\tmov.b64 %pb, {%fb, %fa};\n"
      "\tmov.u32 %w, %thread;\n\tmov.u32 %sum, memory;\nFILL:\n";
  text += word_value(words);
  text += fmt::format(
      "\tshl.b32 %rb, %w, 2;\n\tadd.u32 %rb, %rb, %sum;\n\tst.shared.u32 [%rb], %at;\n\tadd.u32 %w, %w, %width;\n"
      "\tsetp.lt.u32 %fill, %w, {};\n\t@%fill bra FILL;\n\tmov.u32 %sum, 0;\n"
      "\tadd.u32 %ra, %thread, 0x3c003c01;\n\tadd.u32 %rb, %left, 0x3123;\n\tadd.u32 %rc, %thread, 0x3c013c00;\n"
      "\tadd.u32 %rd, %left, 0x3c023c00;\n",
      kSharedBytes / 4);
  for (int slot = 0; slot < slots; ++slot) text += start_value(*probe_of(slot), slot);
  const bool products = any(Chain::kWarpgroup);
  if (products) {  // two tiles without swizzle, whose core matrices follow each other: 128 bytes and 256 bytes apart
    text +=
        "\tmov.u32 %w, memory;\n\tshr.u32 %w, %w, 4;\n\tand.b32 %w, %w, 0x3fff;\n\tcvt.u64.u32 %ua, %w;\n"
        "\tor.b64 %ua, %ua, 0x0000001000080000;\n\tmov.b64 %ub, %ua;\n";
  }
  if (any(Chain::kBarrier)) {
    text +=
        "\tsetp.ne.u32 %fill, %thread, 0;\n\t@%fill bra READY;\n\tmbarrier.init.shared.b64 [waited], %width;\n"
        "READY:\n";
  }
  if (copies) text += "\tfence.proxy.async;\n";
  text += "\tbar.sync 0;\n\tmov.u64 %start, %clock64;\nLOOP:\n\t.pragma \"nounroll\";\n";
  if (products) text += "\twgmma.fence.sync.aligned;\n";
  for (int i = 0; i < kernel.operations; ++i) {
    const int p = i % count;
    text += "\t{ " +
            operation(*kernel.probes[static_cast<std::size_t>(p)], p * kernel.chains + i / count % kernel.chains,
                      kernel.chains) +
            " }\n";
  }
  if (products) text += "\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n";
  text += "\tsub.u32 %left, %left, 1;\n\tsetp.ne.u32 %more, %left, 0;\n\t@%more bra LOOP;\n";
  if (copies) {  // none may be in flight when the block ends
    for (int slot = 0; slot < slots; ++slot)
      text += fmt::format(
          "LAST{0}:\n\tmbarrier.try_wait.parity.shared.b64 %t{0}, [%j{0}], %c{0};\n\t@!%t{0} bra LAST{0};\n", slot);
    text += "\tcp.async.bulk.wait_group 0;\n";
  }
  text += "\tmov.u64 %end, %clock64;\n";
  for (int slot = 0; slot < slots; ++slot) text += fold(*probe_of(slot), slot);
  text +=
      "\tmul.wide.u32 %offset, %thread, 4;\n\tadd.u64 %offset, %offset, %sink;\n\tst.global.u32 [%offset], %sum;\n"
      "\tshr.u32 %w, %thread, 5;\n\tmul.wide.u32 %offset, %w, 16;\n\tadd.u64 %offset, %offset, %clocks;\n"
      "\tst.global.v2.u64 [%offset], {%start, %end};\n\tret;\n}\n\n";
  return text;
}

}  // namespace

std::vector<int> CudaKernel::thread_counts() const {
  for (const CudaProbe* probe : probes) {
    if (probe->chain == Chain::kBulk) return {1};
    if (probe->chain == Chain::kWarpgroup || probe->chain == Chain::kBarrier) return {128};
  }
  return {32, 128, 256, 512, 1024};
}

Result<std::vector<CudaKernel>> choose_kernels(const CudaOptions& options) {
  if (std::find(cuda_archs().begin(), cuda_archs().end(), options.arch) == cuda_archs().end())
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--arch '{}': probes are compiled for {}", options.arch, fmt::join(cuda_archs(), " ")),
                 ""};
  const int sm = sm_of(options.arch);
  PINCH_ASSIGN(only, Pattern::compile(options.only, "--only"));
  std::vector<CudaKernel> kernels;
  std::map<std::string, const CudaProbe*> by_name;
  for (std::size_t p = 0; p < options.probes->size(); ++p) {
    const CudaProbe& probe = (*options.probes)[p];
    if (!probe.exists_on(sm)) continue;
    by_name[probe.name] = &probe;
    if (!only.found_in(probe.name)) continue;
    for (const int chains : kChainCounts) {
      if (chains > probe.most_chains) break;
      for (const int operations : {least_operations(probe), 2 * least_operations(probe)})
        kernels.push_back(
            {fmt::format("probe{}_c{}_n{}", p, chains, operations), {&probe}, chains, operations, {}, ""});
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
    if (!only.found_in(first->first) || !only.found_in(second->first)) continue;
    const int least = std::min(least_operations(*first->second), least_operations(*second->second));
    for (const int operations : {least, 2 * least})
      kernels.push_back(
          {fmt::format("pair{}_n{}", p, operations), {first->second, second->second}, kPairChains, operations, {}, ""});
  }
  return kernels;
}

std::string ptx_of(const std::string& arch, const std::vector<CudaKernel>& kernels) {
  std::string text =
      fmt::format("{}.target {}\n.address_size 64\n\n", sm_of(arch) >= 100 ? ".version 8.8\n" : ".version 8.4\n", arch);
  for (const CudaKernel& kernel : kernels) text += kernel_text(kernel);
  return text;
}

}  // namespace pinch::probe
