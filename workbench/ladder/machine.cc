#include "workbench/ladder/machine.h"

#include <fmt/core.h>

#include "pinch/machine.h"
#include "pinch/version.h"
#include "workbench/store/binary_hash.h"

namespace pinch::ladder {

Result<Machine> describe_machine() {
  PINCH_ASSIGN(choice, cpu_choice());
  const CpuMachine& cpu = cpu_machine();
  Machine machine;
  machine.brand = cpu.brand;
  machine.cores = cpu.cores;
  if (cpu.vendor != "unknown" && !cpu.brand.empty()) {
    machine.device =
        fmt::format("{} {} family {} model {} stepping {}, {} cores, L1d {} L2 {} L3 {} bytes", cpu.vendor, cpu.brand,
                    cpu.family, cpu.model, cpu.stepping, cpu.cores, cpu.l1d_bytes, cpu.l2_bytes, cpu.l3_bytes);
  }
  machine.isa = fmt::format("{}{}", to_string(choice.isa), choice.forced ? " alone" : "");
  machine.binary = store::binary_hash();
  machine.compiler = compiler();
  return machine;
}

std::string to_text(const Resources& resources) {
  if (resources.sm_count > 0) return fmt::format("{} SMs", resources.sm_count);
  return fmt::format("{} thread{}", resources.threads, resources.threads == 1 ? "" : "s");
}

Result<int> choose_threads(int asked) {
  const int cores = cpu_machine().cores;
  if (asked == 0) return cores;
  if (asked >= 1 && asked <= cores) return asked;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} is not possible: this process may run on {} cores; give 1 to {}, or leave it out", asked,
                           cores, cores),
               "--threads"};
}

}  // namespace pinch::ladder
