#include "workbench/probe/proof.h"

#include <fmt/core.h>

#include <cstdio>

namespace pinch::probe {

std::string to_string(const Proof& proof) {
  if (proof.found == proof.expected && proof.beside_found != proof.beside_expected) {
    return fmt::format("{} {}, but {} {} where {} belong", proof.found, proof.opcode, proof.beside_found, proof.beside,
                       proof.beside_expected);
  }
  if (proof.found == proof.expected && !proof.clocked) {
    return fmt::format("{} {}, but not one read of the clock ahead of the loop and one behind it", proof.found,
                       proof.opcode);
  }
  if (!proof.proved()) {
    return fmt::format("expected {} {}, found {}{}", proof.expected, proof.opcode, proof.found,
                       proof.instead.empty() ? "" : fmt::format(" ({} instead)", proof.instead));
  }
  return fmt::format("{} {}{}{}{}", proof.found, proof.opcode,
                     proof.of_also == 0 ? "" : fmt::format(" ({} of them {})", proof.of_also, proof.also),
                     proof.base_only ? " (base opcode only)" : "",
                     proof.others == 0 ? "" : fmt::format(" with {} others ({})", proof.others, proof.instead));
}

Others others_of(const std::string& proof) {
  Others found;
  const auto with = proof.rfind(" with ");
  char opcode[65] = "";
  if (with == std::string::npos || std::sscanf(proof.c_str(), "%d ", &found.timed) != 1 ||
      std::sscanf(proof.c_str() + with, " with %d others (%64s x %d)", &found.all, opcode, &found.of_opcode) != 3)
    return {};
  found.opcode = opcode;
  return found;
}

}  // namespace pinch::probe
