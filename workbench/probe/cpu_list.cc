#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "workbench/probe/cpu_probe.h"

namespace pinch::probe {

const std::vector<CpuProbe>& cpu_probes() {
  using enum Form;
  static const std::vector<CpuProbe> probes = [] {
    std::vector<CpuProbe> made;
    // At 512 bits and, where AVX2 has it, at 256.
    const auto both = [&](const char* name, const char* mnemonic, const char* narrow, Form form, const char* feature,
                          const char* about) {
      made.push_back({fmt::format("{}.512", name), {mnemonic, form, 512}, feature, about});
      if (narrow != nullptr)
        made.push_back({fmt::format("{}.256", name), {narrow, form, 256}, form == kAccumulate ? "fma" : "avx2", about});
    };
    both("fma", "vfmadd231ps", "vfmadd231ps", kAccumulate, "avx512f", "multiply-add of floats");
    both("mul", "vmulps", "vmulps", kBinary, "avx512f", "product of floats");
    both("add", "vaddps", "vaddps", kBinary, "avx512f", "sum of floats");
    both("max", "vmaxps", "vmaxps", kBinary, "avx512f", "larger of floats");
    both("dot.bf16", "vdpbf16ps", nullptr, kAccumulate, "avx512bf16", "dot product of bf16 pairs into floats");
    both("dot.u8", "vpdpbusd", nullptr, kAccumulate, "avx512vnni", "dot product of bytes into 32-bit integers");
    both("cvt.bf16x2", "vcvtne2ps2bf16", nullptr, kBinary, "avx512bf16", "two vectors of floats to bf16");
    both("cvt.bf16", "vcvtneps2bf16", nullptr, kNarrow, "avx512bf16", "one vector of floats to bf16");
    both("permb", "vpermb", nullptr, kBinary, "avx512vbmi", "bytes by an index");
    both("permw", "vpermw", nullptr, kBinary, "avx512bw", "16-bit words by an index");
    both("shufb", "vpshufb", "vpshufb", kBinary, "avx512bw", "bytes by an index within 128 bits");
    both("scalef", "vscalefps", nullptr, kBinary, "avx512f", "times a power of two");
    both("getexp", "vgetexpps", nullptr, kUnary, "avx512f", "exponent of floats");
    both("rcp", "vrcp14ps", "vrcpps", kUnary, "avx512f", "approximate reciprocal");
    both("rsqrt", "vrsqrt14ps", "vrsqrtps", kUnary, "avx512f", "approximate reciprocal square root");
    both("div", "vdivps", "vdivps", kBinary, "avx512f", "quotient of floats");
    both("sqrt", "vsqrtps", "vsqrtps", kUnary, "avx512f", "square root of floats");
    both("mul.i32", "vpmulld", "vpmulld", kBinary, "avx512f", "product of 32-bit integers");
    both("add.i32", "vpaddd", "vpaddd", kBinary, "avx512f", "sum of 32-bit integers");
    both("and", "vpandq", "vpand", kBinary, "avx512f", "bitwise and");
    both("shift.i16", "vpsrlw", "vpsrlw", kShift, "avx512bw", "16-bit words shifted right by a constant");
    both("load", "vmovups", "vmovups", kLoad, "avx512f", "load from the first-level cache");
    both("store", "vmovups", "vmovups", kStore, "avx512f", "store to the first-level cache");
    made.push_back({"load.64", {"mov", kChase, 64}, "sse2", "load of the next address"});
    return made;
  }();
  return probes;
}

bool runs_here(const CpuProbe& probe) {
#if defined(__x86_64__)
  const std::string feature = probe.feature;
  const bool wide = probe.operation.bits == 512;
  if (wide && __builtin_cpu_supports("avx512f") == 0) return false;
  if (feature == "avx512f" || feature == "sse2") return true;
  if (feature == "avx2") return __builtin_cpu_supports("avx2") != 0;
  if (feature == "fma") return __builtin_cpu_supports("fma") != 0;
  if (feature == "avx512bw") return __builtin_cpu_supports("avx512bw") != 0;
  if (feature == "avx512vbmi") return __builtin_cpu_supports("avx512vbmi") != 0;
  if (feature == "avx512vnni") return __builtin_cpu_supports("avx512vnni") != 0;
  if (feature == "avx512bf16") return __builtin_cpu_supports("avx512bf16") != 0;
#endif
  static_cast<void>(probe);
  return false;
}

const std::vector<std::pair<std::string, std::string>>& cpu_pairs() {
  static const std::vector<std::pair<std::string, std::string>> pairs = {
      {"dot.bf16.512", "permw.512"},  {"dot.bf16.512", "fma.512"}, {"dot.bf16.512", "load.512"},
      {"fma.512", "permw.512"},       {"fma.512", "add.i32.512"},  {"fma.512", "mul.512"},
      {"permw.512", "shift.i16.512"}, {"fma.256", "shufb.256"},    {"fma.256", "mul.256"}};
  return pairs;
}

}  // namespace pinch::probe
