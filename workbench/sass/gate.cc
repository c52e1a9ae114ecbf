#include <fmt/core.h>

#include <map>
#include <optional>
#include <set>
#include <utility>

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

std::optional<double> known(const ordered_json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<double>();
}

// The files cannot be held against this baseline, whatever they hold.
struct Incomparable {
  std::string why;
};

class Gate {
 public:
  Gate(const GateThresholds& thresholds, GateResult& result) : thresholds_(thresholds), result_(result) {}

  void compare(const ordered_json& before, const ordered_json& after) {
    name(before);
    ++result_.compared;
    const auto road = before.at("mnemonics_from").get<std::string>(),
               now = after.at("mnemonics_from").get<std::string>();
    if (road != now) {
      throw Incomparable{fmt::format(
          "the baseline names instructions by {} and these files by {} ({}); write and hold it with the same "
          "--disassembler (`none` is there on every machine)",
          road, now, kernel_)};
    }
    whole("registers", before.at("registers"), after.at("registers"), thresholds_.registers);
    whole("bytes of frame", before.at("frame_bytes"), after.at("frame_bytes"), thresholds_.frame_bytes);
    whole("bytes of shared memory", before.at("shared_bytes"), after.at("shared_bytes"), thresholds_.shared_bytes);
    whole("local accesses", local_accesses(before), local_accesses(after), thresholds_.local_accesses);
    whole("findings", findings(before), findings(after), thresholds_.lints);
    const auto &old_loops = before.at("loops"), &new_loops = after.at("loops");
    if (old_loops.size() != new_loops.size()) {
      fail(fmt::format("{} loops, baseline {}; if that is meant, write the baseline anew", new_loops.size(),
                       old_loops.size()));
      return;
    }
    for (std::size_t i = 0; i < old_loops.size(); ++i) {
      if (old_loops[i].at("warps") != new_loops[i].at("warps") ||
          old_loops[i].at("sub_partitions") != new_loops[i].at("sub_partitions"))
        throw Incomparable{"the baseline was written with another --warps, --role or --sub-partitions"};
      cycles(old_loops[i], new_loops[i], "bound_cycles", "bound");
      cycles(old_loops[i], new_loops[i], "simulated_cycles", "simulated");
    }
  }

  void missing(const ordered_json& before) {
    name(before);
    if (!thresholds_.allow_missing)
      fail("not in the files given; give them for every arch of the baseline, or pass --allow-missing");
  }

  void unknown_to_baseline(const ordered_json& after) {
    name(after);
    leave("not in the baseline");
  }

 private:
  void name(const ordered_json& kernel) {
    kernel_ = kernel.at("name").get<std::string>();
    arch_ = kernel.at("arch").get<std::string>();
  }
  void fail(std::string what) { result_.failures.push_back({kernel_, arch_, std::move(what)}); }
  void leave(std::string what) { result_.unjudged.push_back({kernel_, arch_, std::move(what)}); }

  // True where both are known; else says what that means.
  bool comparable(const std::string& what, const std::optional<double>& before, const std::optional<double>& after) {
    if (before && after) return true;
    if (before) {
      fail(fmt::format("{} not known, baseline {:g}; give a cubin, or text with what the baseline's had", what,
                       *before));
    } else {
      leave(fmt::format("{} not known to {}", what, after ? "the baseline" : "either"));
    }
    return false;
  }

  void whole(const char* what, const ordered_json& before, const ordered_json& after, int allowed) {
    const auto was = known(before), is = known(after);
    if (!comparable(what, was, is) || *is <= *was + allowed) return;
    fail(fmt::format("{:g} {}, baseline {:g} (allowed +{})", *is, what, *was, allowed));
  }

  void cycles(const ordered_json& before, const ordered_json& after, const char* field, const char* what) {
    const auto was = known(before.at(field)), is = known(after.at(field));
    const auto begin = after.at("begin").get<std::uint32_t>();
    if (!comparable(fmt::format("loop 0x{:x}: {} cycles", begin, what), was, is)) return;
    if (*is <= *was * (1 + thresholds_.cycles_percent / 100) + 1e-9) return;
    fail(fmt::format("loop 0x{:x}: {} {:g} cycles, baseline {:g}{} (allowed +{:g}%)", begin, what, *is, *was,
                     *was > 0 ? fmt::format(", {:+.1f}%", 100 * (*is / *was - 1)) : "", thresholds_.cycles_percent));
  }

  const GateThresholds& thresholds_;
  GateResult& result_;
  std::string kernel_, arch_;
};

using Key = std::pair<std::string, std::string>;

Key key_of(const ordered_json& kernel) {
  return {kernel.at("name").get<std::string>(), kernel.at("arch").get<std::string>()};
}

}  // namespace

Result<GateResult> gate(const ordered_json& baseline, const ordered_json& current, const GateThresholds& thresholds) {
  GateResult result;
  Gate made(thresholds, result);
  try {
    const ordered_json& kernels = baseline.at("kernels");
    if (!kernels.is_array() || kernels.empty())
      throw Incomparable{
          "the baseline holds no kernel, so nothing can fail; write it with: pinch sass FILE --json BASELINE"};
    std::map<Key, const ordered_json*> now;
    std::set<Key> judged;
    for (const auto& kernel : current.at("kernels")) now[key_of(kernel)] = &kernel;
    for (const auto& before : kernels) {
      const auto after = now.find(key_of(before));
      if (after == now.end()) {
        made.missing(before);
        continue;
      }
      made.compare(before, *after->second);
      judged.insert(after->first);
    }
    if (result.compared == 0 && thresholds.allow_missing)
      throw Incomparable{"no kernel of the baseline is in the files given"};
    for (const auto& [key, kernel] : now) {
      if (judged.count(key) == 0) made.unknown_to_baseline(*kernel);
    }
  } catch (const Incomparable& reason) {
    return Error{ErrorCode::kInvalidArgument, reason.why, ""};
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
