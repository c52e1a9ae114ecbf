#include <fmt/core.h>

#include "workbench/sass/diff.h"

namespace pinch::sass {
namespace {

using nlohmann::ordered_json;

int local_accesses(const ordered_json& kernel) {
  int sum = 0;
  for (const auto& [name, count] : kernel.at("local").items()) sum += count.get<int>();
  return sum;
}

std::size_t findings(const ordered_json& kernel) {
  std::size_t sum = kernel.at("lints").size();
  for (const auto& loop : kernel.at("loops")) sum += loop.at("lints").size();
  return sum;
}

class Gate {
 public:
  Gate(const GateThresholds& thresholds, GateResult& result) : thresholds_(thresholds), result_(result) {}

  void compare(const ordered_json& before, const ordered_json& after) {
    kernel_ = before.at("name").get<std::string>();
    arch_ = before.at("arch").get<std::string>();
    ++result_.compared;
    if (before.at("registers").is_number() && after.at("registers").is_number()) {
      whole("registers", before.at("registers").get<int>(), after.at("registers").get<int>(), thresholds_.registers);
    }
    whole("local accesses", local_accesses(before), local_accesses(after), thresholds_.local_accesses);
    whole("findings", static_cast<int>(findings(before)), static_cast<int>(findings(after)), thresholds_.lints);
    const auto &old_loops = before.at("loops"), &new_loops = after.at("loops");
    if (old_loops.size() != new_loops.size()) {
      fail(fmt::format("{} loops, baseline {}; if that is meant, write the baseline anew", new_loops.size(),
                       old_loops.size()));
      return;
    }
    for (std::size_t i = 0; i < old_loops.size(); ++i) {
      cycles(old_loops[i], new_loops[i], "bound_cycles", "bound");
      cycles(old_loops[i], new_loops[i], "simulated_cycles", "simulated");
    }
  }

  void missing(const ordered_json& before) {
    kernel_ = before.at("name").get<std::string>();
    arch_ = before.at("arch").get<std::string>();
    if (!thresholds_.allow_missing)
      fail("not in the files given; give them for every arch of the baseline, or pass --allow-missing");
  }

 private:
  void fail(std::string what) { result_.failures.push_back({kernel_, arch_, std::move(what)}); }

  void whole(const char* what, int before, int after, int allowed) {
    if (after > before + allowed) fail(fmt::format("{} {}, baseline {} (allowed +{})", after, what, before, allowed));
  }

  void cycles(const ordered_json& before, const ordered_json& after, const char* field, const char* what) {
    const double was = before.at(field).get<double>(), is = after.at(field).get<double>();
    if (before.at("warps") != after.at("warps"))
      throw std::invalid_argument("the baseline was written with another --warps or --role");
    if (is <= was * (1 + thresholds_.cycles_percent / 100) + 1e-9) return;
    fail(fmt::format("loop 0x{:x}: {} {:g} cycles, baseline {:g}{} (allowed +{:g}%)",
                     after.at("begin").get<std::uint32_t>(), what, is, was,
                     was > 0 ? fmt::format(", {:+.1f}%", 100 * (is / was - 1)) : "", thresholds_.cycles_percent));
  }

  const GateThresholds& thresholds_;
  GateResult& result_;
  std::string kernel_, arch_;
};

}  // namespace

Result<GateResult> gate(const ordered_json& baseline, const ordered_json& current, const GateThresholds& thresholds) {
  GateResult result;
  Gate made(thresholds, result);
  try {
    for (const auto& before : baseline.at("kernels")) {
      const ordered_json* after = nullptr;
      for (const auto& kernel : current.at("kernels")) {
        if (kernel.at("name") == before.at("name") && kernel.at("arch") == before.at("arch")) after = &kernel;
      }
      if (after == nullptr) {
        made.missing(before);
      } else {
        made.compare(before, *after);
      }
    }
  } catch (const std::exception& error) {
    return Error{
        ErrorCode::kCorrupt,
        fmt::format("not a document of `pinch sass --json`: {}; write it with: pinch sass FILE --json BASELINE",
                    error.what()),
        ""};
  }
  return result;
}

}  // namespace pinch::sass
