// The CPU this process runs on, and which instruction sets its kernels may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "pinch/result.h"

namespace pinch {

/// Instruction sets that kernels are written for, each including the ones before it.
enum class CpuIsa : std::uint8_t {
  kScalar,      ///< portable C++
  kAvx2,        ///< AVX2 and FMA, 256 bits
  kAvx512,      ///< AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  ///< and AVX512_BF16: VDPBF16PS
  kAmxBf16,     ///< and AMX_BF16: TDPBF16PS on tiles, once the operating system has granted their state
};

/// Every one, in ascending order.
std::span<const CpuIsa> cpu_isas();

/// "scalar", "avx2", "avx512", "avx512_bf16", "amx_bf16".
std::string_view to_string(CpuIsa isa);

/// The inverse. Errors: kNotFound, offering the names.
Result<CpuIsa> parse_cpu_isa(std::string_view text);

struct CpuMachine {
  std::string vendor;  ///< "GenuineIntel", "AuthenticAMD"; "unknown" off x86-64
  std::string brand;   ///< the model's name as the CPU gives it
  int family = 0;
  int model = 0;
  int stepping = 0;
  int cores = 1;              ///< logical CPUs this process may run on (its affinity mask)
  std::size_t l1d_bytes = 0;  ///< of one core; 0 where unknown
  std::size_t l2_bytes = 0;
  std::size_t l3_bytes = 0;           ///< of the whole cache, however many cores share it
  CpuIsa best_isa = CpuIsa::kScalar;  ///< the last of cpu_isas() that hardware and operating system both support
};

/// Read once per process, except `cores`, which is the affinity mask at the first call. Asks Linux for the AMX state
/// where the CPU has AMX.
const CpuMachine& cpu_machine();

/// Which instruction sets kernels may use: PINCH_CPU=<name> leaves that one alone, so that a test or a measurement runs
/// the path it names; unset or empty leaves all that the machine supports. Read once per process.
struct CpuChoice {
  bool forced = false;
  CpuIsa isa = CpuIsa::kScalar;  ///< the forced one, else the best

  [[nodiscard]] bool allows(CpuIsa candidate) const { return forced ? candidate == isa : candidate <= isa; }
};

/// Errors: PINCH_CPU names no instruction set (kInvalidArgument), or one that this machine lacks (kUnsupported).
const Result<CpuChoice>& cpu_choice();

}  // namespace pinch
