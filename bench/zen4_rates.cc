// Rates measured on this CPU beside those stated for Zen 4: on such a CPU at least 90% must agree within 3%, else exit
// code 1; on another it says so and compares all the same.
//
//     zen4_rates data/machines/zen4.json
#include <fmt/core.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include "workbench/probe/cpu_probe.h"

namespace {

constexpr double kTolerance = 0.03, kMinShare = 0.9;

// Zen 4 is AMD's family 25, models 0x10 to 0x1f, 0x60 to 0x7f and 0xa0 to 0xaf; the device's name holds them in
// decimal.
bool is_zen4(const std::string& device) {
  const auto family = device.find("(family 25 model ");
  if (family == std::string::npos || device.find("AMD") == std::string::npos) return false;
  const int model = std::atoi(device.c_str() + family + 17);
  return (model >= 0x10 && model <= 0x1f) || (model >= 0x60 && model <= 0x7f) || (model >= 0xa0 && model <= 0xaf);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace pinch;
  if (argc != 2) {
    fmt::print(stderr, "usage: zen4_rates data/machines/zen4.json\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  const auto cited =
      probe::parse_model(std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, argv[1]);
  if (!cited) {
    fmt::print(stderr, "{}\n", cited.error().message());
    return 2;
  }
  measure::SystemClock clock;
  const auto measured = probe::measure_cpu({}, clock);
  if (!measured) {
    fmt::print(stderr, "{}\n", measured.error().message());
    return 3;
  }
  int agree = 0, compared = 0;
  for (const probe::Entry& stated : cited->entries) {
    const probe::Entry* mine = measured->find(stated.name);
    if (mine == nullptr || !mine->value) {
      fmt::print("{:<24} stated {:>8.3f}  not measured here\n", stated.name, *stated.value);
      continue;
    }
    const double off = *mine->value / *stated.value - 1;
    ++compared;
    agree += std::abs(off) <= kTolerance;
    fmt::print("{:<24} stated {:>8.3f}  measured {:>8.3f} {:<22} {:+6.1f}%  spread {:.1f}%\n", stated.name,
               *stated.value, *mine->value, stated.unit, 100 * off, 100 * mine->spread);
  }
  const bool zen4 = is_zen4(measured->device);
  fmt::print("{}: {} of {} within {:.0f}%{}\n", measured->device, agree, compared, 100 * kTolerance,
             zen4 ? "" : "; not a Zen 4, so this decides nothing");
  return zen4 && agree < kMinShare * compared ? 1 : 0;
}
