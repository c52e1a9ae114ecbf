#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "pinch/machine.h"

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pinch {
namespace {

constexpr std::array kIsas = {CpuIsa::kScalar, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16, CpuIsa::kAmxBf16};
constexpr std::array<std::string_view, kIsas.size()> kIsaNames = {"scalar", "avx2", "avx512", "avx512_bf16",
                                                                  "amx_bf16"};

int usable_cores() {
#if defined(__linux__)
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0 && CPU_COUNT(&mask) > 0) return CPU_COUNT(&mask);
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<int>(online) : 1;
}

std::size_t cache_bytes([[maybe_unused]] int level) {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  const int name = level == 1 ? _SC_LEVEL1_DCACHE_SIZE : level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE;
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
#else
  return 0;
#endif
}

#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

constexpr bool bit(unsigned value, int index) {
  return ((value >> index) & 1U) != 0;
}

/// State components the operating system saves: without them the instructions fault whatever CPUID says.
std::uint64_t enabled_state() {
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

/// Linux hands out the 8 KiB of tile registers on request only.
bool request_tile_state() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int kArchReqXcompPerm = 0x1023, kXfeatureXtiledata = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
#else
  return false;
#endif
}

CpuIsa detect_isa() {
  const Registers basic = cpuid(1), extended = cpuid(7), more = cpuid(7, 1);
  constexpr std::uint64_t kYmmState = 0x6, kZmmState = 0xe6, kTileState = 0x60000;
  if (!bit(basic.ecx, 27)) return CpuIsa::kScalar;  // OSXSAVE
  const std::uint64_t state = enabled_state();
  const auto saved = [&](std::uint64_t bits) { return (state & bits) == bits; };

  const bool avx2 = saved(kYmmState) && bit(basic.ecx, 12) && bit(extended.ebx, 5);  // FMA, AVX2
  if (!avx2) return CpuIsa::kScalar;
  const bool avx512 = saved(kZmmState) && bit(extended.ebx, 16) && bit(extended.ebx, 17) && bit(extended.ebx, 30) &&
                      bit(extended.ebx, 31);  // F, DQ, BW, VL
  if (!avx512) return CpuIsa::kAvx2;
  if (!bit(more.eax, 5)) return CpuIsa::kAvx512;                                         // AVX512_BF16
  const bool amx = saved(kTileState) && bit(extended.edx, 22) && bit(extended.edx, 24);  // AMX_BF16, AMX_TILE
  return amx && request_tile_state() ? CpuIsa::kAmxBf16 : CpuIsa::kAvx512Bf16;
}

void identify(CpuMachine& machine) {
  const Registers vendor = cpuid(0);
  char text[49] = {};
  std::memcpy(text, &vendor.ebx, 4);
  std::memcpy(text + 4, &vendor.edx, 4);
  std::memcpy(text + 8, &vendor.ecx, 4);
  machine.vendor = text;

  const unsigned signature = cpuid(1).eax;
  const unsigned base_family = (signature >> 8) & 0xf, base_model = (signature >> 4) & 0xf;
  machine.family = static_cast<int>(base_family == 0xf ? base_family + ((signature >> 20) & 0xff) : base_family);
  const bool extended_model = base_family == 0x6 || base_family == 0xf;
  machine.model = static_cast<int>(extended_model ? base_model + ((signature >> 12) & 0xf0) : base_model);
  machine.stepping = static_cast<int>(signature & 0xf);

  std::memset(text, 0, sizeof(text));
  for (unsigned i = 0; i < 3; ++i) {
    const Registers part = cpuid(0x80000002U + i);
    std::memcpy(text + 16 * i, &part, 16);
  }
  const std::string_view brand = text;
  const auto first = brand.find_first_not_of(' ');
  machine.brand = first == std::string_view::npos ? "unknown" : brand.substr(first);
}

#else

CpuIsa detect_isa() {
  return CpuIsa::kScalar;
}
void identify(CpuMachine& machine) {
  machine.vendor = machine.brand = "unknown";
}

#endif

Result<CpuChoice> choose() {
  const CpuIsa best = cpu_machine().best_isa;
  const char* text = std::getenv("PINCH_CPU");
  if (text == nullptr || *text == '\0') return CpuChoice{false, best};
  const auto isa = parse_cpu_isa(text);
  if (!isa.ok()) return Error{ErrorCode::kInvalidArgument, isa.error().text, "PINCH_CPU"};
  if (*isa > best) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} was asked for, but this CPU ({}) goes up to {}; unset it or name a lower one", text,
                             cpu_machine().brand, to_string(best)),
                 "PINCH_CPU"};
  }
  return CpuChoice{true, *isa};
}

}  // namespace

std::span<const CpuIsa> cpu_isas() {
  return kIsas;
}

std::string_view to_string(CpuIsa isa) {
  return kIsaNames[static_cast<std::size_t>(isa)];
}

Result<CpuIsa> parse_cpu_isa(std::string_view text) {
  for (const CpuIsa isa : kIsas) {
    if (to_string(isa) == text) return isa;
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("no instruction set is called '{}'; the names are {}", text, fmt::join(kIsaNames, ", ")),
               ""};
}

const CpuMachine& cpu_machine() {
  static const CpuMachine machine = [] {
    CpuMachine found;
    identify(found);
    found.cores = usable_cores();
    found.l1d_bytes = cache_bytes(1);
    found.l2_bytes = cache_bytes(2);
    found.l3_bytes = cache_bytes(3);
    found.best_isa = detect_isa();
    return found;
  }();
  return machine;
}

const Result<CpuChoice>& cpu_choice() {
  static const Result<CpuChoice> choice = choose();
  return choice;
}

}  // namespace pinch
