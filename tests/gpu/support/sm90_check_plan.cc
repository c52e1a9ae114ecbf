#include "tests/gpu/support/sm90_check_plan.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>

namespace pinch::gpu_test {

using namespace gemm_bf16_fp4::sm90;

namespace {

constexpr CheckedProblem kReduced[] = {{3, 72, 96, 1, true}, {2, 136, 1056}, {33, 264, 224}};

// Those at which a kernel's parts change places: the least sizes, whole tiles, many waves, one row more than a tile.
constexpr CheckedProblem kChosen[] = {{1, 8, 32},
                                      {2, 16, 64},
                                      {3, 72, 96, 1, true},
                                      {5, 64, 64},
                                      {7, 24, 96},
                                      {8, 40, 160},
                                      {9, 72, 1056},
                                      {13, 136, 4128},
                                      {16, 8, 8192},
                                      {3, 40, 20512},
                                      {17, 136, 160},
                                      {25, 1000, 992},
                                      {31, 264, 2048},
                                      {32, 4104, 96},
                                      {32, 520, 6656},
                                      {1, 4096, 4096, 60},
                                      {7, 1000, 2080, 60},
                                      {16, 1992, 2080, 60},
                                      {20, 1000, 928, 60},
                                      {7, 1000, 6656},
                                      {16, 2056, 4096},
                                      {32, 1000, 4128},
                                      {9, 6656, 6656},
                                      {31, 19968, 416},
                                      {33, 1000, 992, 1, true},
                                      {64, 256, 512},
                                      {100, 520, 1056},
                                      {129, 264, 2048},
                                      {130, 4096, 4096, 60},
                                      {255, 392, 640},
                                      {257, 1544, 736, 1, true},
                                      {300, 5000, 1056, 60},
                                      {512, 20000, 320},
                                      {1000, 648, 1504},
                                      {2048, 4096, 256}};

// Small ones with tails in n and k for every tile (odd multiples of 8 and of 32), so that each tactic has enough: m to
// 8 for every streaming kernel, to 32 for those of 2 and 4 blocks of rows, above 256 for every tile's rasters. Half of
// them have k for 8 parts of 128 columns.
std::vector<CheckedProblem> list_full_problems() {
  std::vector<CheckedProblem> all(std::begin(kChosen), std::end(kChosen));
  const auto odd = [](int i, int step, int period) { return 2 * (i * step % period) + 1; };
  for (int i = 0; i < 40; ++i) all.push_back({1 + i % 8, 8 * odd(i, 37, 61), 64 + 32 * odd(i, 23, 41)});
  for (int i = 0; i < 24; ++i) all.push_back({9 + i, 8 * odd(i, 31, 53), 64 + 32 * odd(i, 17, 29)});
  for (int i = 0; i < 40; ++i) all.push_back({257 + i * 67 % 401, 8 * odd(i, 11, 25), 64 + 32 * odd(i, 8, 21)});
  return all;
}

// Every legal way to launch a streaming kernel.
std::vector<StreamTactic> schedules_of(const StreamInstance& instance) {
  std::vector<StreamTactic> all;
  for (const int blocks_per_sm : {1, 2, 4}) {
    if (instance.warps_per_sm % blocks_per_sm != 0) continue;
    for (const int split : {1, 2, 4, 8}) {
      for (const int balance : {0, 1}) {
        const StreamTactic tactic{.m_blocks = instance.m_blocks,
                                  .row_tiles = instance.row_tiles,
                                  .in_flight = instance.in_flight,
                                  .warps = instance.warps_per_sm / blocks_per_sm,
                                  .blocks_per_sm = blocks_per_sm,
                                  .k_warps = instance.k_warps,
                                  .split_k = split,
                                  .balance = balance};
        if (illegal(tactic) == nullptr) all.push_back(tactic);
      }
    }
  }
  return all;
}

// What the kernels can run besides the listed tactics, for every kernel of the list.
std::vector<Tactic> list_unlisted() {
  std::vector<Tactic> all;
  const auto listed = tactics();
  const auto add = [&](const auto& tactic) {
    if (std::find(listed.begin(), listed.end(), Tactic(tactic)) == listed.end() &&
        std::find(all.begin(), all.end(), Tactic(tactic)) == all.end())
      all.emplace_back(tactic);
  };
  for (const Tactic& tactic : listed) {
    if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) {
      for (const int split : {1, kStreamK, 2, 3, 4, 8}) {
        const WgmmaTactic other{wgmma->tile, split, 8};
        if (illegal(other).empty()) add(other);
      }
      continue;
    }
    for (const StreamTactic& other : schedules_of(instance_of(std::get<StreamTactic>(tactic)))) add(other);
  }
  return all;
}

// By the kernels' rules alone: the list's, that a launch has one name, are not for what it leaves out.
std::string_view refused_by_kernel(const Tactic& tactic, const WgmmaProblem& p, const Device& device) {
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) return illegal(*wgmma, p, device.wgmma);
  const char* why = illegal(std::get<StreamTactic>(tactic), StreamProblem{p.m, p.n, p.k}, device.stream);
  return why == nullptr ? std::string_view() : why;
}

}  // namespace

std::span<const CheckedProblem> full_problems() {
  static const std::vector<CheckedProblem> all = list_full_problems();
  return all;
}

std::span<const CheckedProblem> reduced_problems() {
  return kReduced;
}

std::vector<PlannedCheck> planned_checks(const CheckedProblem& p, int turn, int unlisted_step, const Device& device) {
  static const std::vector<Tactic> unlisted = list_unlisted();
  const WgmmaProblem problem{p.m, p.n, p.k};
  std::vector<PlannedCheck> all;
  for (const Tactic& tactic : tactics()) all.push_back({tactic, illegal(tactic, problem, device), p.repeats});
  for (const Tactic& tactic : unlisted) {
    const std::string_view refused = refused_by_kernel(tactic, problem, device);
    if (!refused.empty() || turn++ % unlisted_step == 0) all.push_back({tactic, refused, 1});
  }
  return all;
}

bool must_be_legal(const Tactic& tactic) {
  const auto* wgmma = std::get_if<WgmmaTactic>(&tactic);
  return wgmma != nullptr && wgmma->split_k == 1 && wgmma->raster_m == 1;
}

bool stream_must_run(const CheckedProblem& p) {
  const int rows = p.m <= 8 ? 8 : p.m <= 16 ? 16 : 32;
  constexpr int kOtherBytes = 64 * 1024;  // the teams' sums and the ring of weights: with 8 warps and 32 rows 58 KB
  return p.m <= 32 && std::int64_t{rows} * (p.k / 2) * 2 <= kMaxSharedBytes - kOtherBytes;
}

std::vector<std::string> families_missing(const CheckedProblem& p, std::span<const PlannedCheck> plan) {
  const auto listed = tactics();
  const auto runs = [&](bool wgmma) {
    return std::any_of(plan.begin(), plan.end(), [&](const PlannedCheck& check) {
      return check.refused.empty() && std::holds_alternative<WgmmaTactic>(check.tactic) == wgmma &&
             std::find(listed.begin(), listed.end(), check.tactic) != listed.end();
    });
  };
  std::vector<std::string> missing;
  if (!runs(true)) missing.emplace_back("wgmma");
  if (stream_must_run(p) && !runs(false)) missing.emplace_back("stream");
  return missing;
}

std::vector<Tactic> compiled_tactics(std::string_view set) {
  std::vector<Tactic> all;
  for (const Tactic& tactic : tactics())
    if (set == "full" || in_core(tactic)) all.push_back(tactic);
  return all;
}

bool has_tails(const Tactic& tactic, const CheckedProblem& p) {
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic))
    return p.n % wgmma->tile.tile_n != 0 && p.k % wgmma->tile.tile_k != 0;
  return p.n % (16 * std::get<StreamTactic>(tactic).row_tiles) != 0 && p.k % kTileCols != 0;
}

bool can_share(const Tactic& tactic) {
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) return wgmma->split_k != 1 || wgmma->tile.cluster_k > 1;
  const auto& stream = std::get<StreamTactic>(tactic);
  return stream.split_k > 1 || stream.balance == 1;
}

bool shares(const Tactic& tactic, const CheckedProblem& p, const Device& device) {
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) {
    const Schedule s = make_schedule(*wgmma, {p.m, p.n, p.k}, device.wgmma);
    if (wgmma->tile.cluster_k > 1) return s.k_iterations >= wgmma->tile.cluster_k;
    if (s.shared_tiles == 0) return false;
    for (int worker = 1; worker < s.workers; ++worker)
      if (s.range_begin(worker) % s.k_iterations != 0) return true;
    return false;
  }
  const auto& stream = std::get<StreamTactic>(tactic);
  if (p.k <= kTileCols) return false;
  // Balanced: of fewer row groups than teams one at least is cut.
  const int row_groups = (p.n + kTileRows - 1) / kTileRows * kTileRows / (16 * stream.row_tiles);
  return stream.split_k > 1 || (stream.balance == 1 && row_groups < device.stream.sm_count);
}

void Coverage::add(const Tactic& tactic, const CheckedProblem& p, int variant, int repeats, const Device& device) {
  Got& got = got_[to_string(tactic)].at(static_cast<std::size_t>(variant));
  if (has_tails(tactic, p)) {
    ++got.problems;
    got.repeats_with_tails = std::max(got.repeats_with_tails, repeats);
  }
  if (shares(tactic, p, device)) got.repeats_that_share = std::max(got.repeats_that_share, repeats);
}

Coverage::Least Coverage::least(const Tactic& tactic) const {
  const auto found = got_.find(to_string(tactic));
  if (found == got_.end()) return {0, 0};
  Least least{std::numeric_limits<int>::max(), std::numeric_limits<int>::max()};
  for (const Got& got : found->second) {
    least.problems = std::min(least.problems, got.problems);
    least.repeats = std::min(least.repeats, got.repeats_with_tails);
    if (can_share(tactic)) least.repeats = std::min(least.repeats, got.repeats_that_share);
  }
  return least;
}

Coverage::Least Coverage::least(std::span<const Tactic> needed) const {
  if (needed.empty()) return {0, 0};
  Least least{std::numeric_limits<int>::max(), std::numeric_limits<int>::max()};
  for (const Tactic& tactic : needed) {
    const Least one = this->least(tactic);
    least = {std::min(least.problems, one.problems), std::min(least.repeats, one.repeats)};
  }
  return least;
}

std::vector<std::string> Coverage::gaps(std::span<const Tactic> needed) const {
  std::vector<std::string> gaps;
  for (const Tactic& tactic : needed) {
    const Least got = least(tactic);
    if (got.problems >= kFewestProblems && got.repeats >= kFewestRepeats) continue;
    gaps.push_back(to_string(tactic) + ": checked on " + std::to_string(got.problems) + " problems of " +
                   std::to_string(kFewestProblems) + ", repeated " + std::to_string(got.repeats) + " times of " +
                   std::to_string(kFewestRepeats));
  }
  return gaps;
}

namespace {

// On every problem's plan of `needed`, and on that without the legal tactics of one family.
int planted_families_missed(std::span<const Tactic> needed, const Device& device) {
  int missed = 0;
  const auto expect = [&](const CheckedProblem& p, const std::vector<PlannedCheck>& plan, bool wgmma, bool stream) {
    std::vector<std::string> expected;
    if (wgmma) expected.emplace_back("wgmma");
    if (stream) expected.emplace_back("stream");
    if (families_missing(p, plan) == expected) return;
    ++missed;
    std::printf("MISSED of m=%d n=%d k=%d%s%s\n", p.m, p.n, p.k, wgmma ? ", no wgmma planned" : "",
                stream ? ", no stream planned" : "");
  };
  for (const CheckedProblem& p : full_problems()) {
    std::vector<PlannedCheck> plan = planned_checks(p, 0, std::numeric_limits<int>::max(), device);
    std::erase_if(plan, [&](const PlannedCheck& check) {
      return std::find(needed.begin(), needed.end(), check.tactic) == needed.end();
    });
    expect(p, plan, false, false);
    for (const bool wgmma : {true, false}) {
      std::vector<PlannedCheck> without = plan;
      std::erase_if(without, [&](const PlannedCheck& check) {
        return check.refused.empty() && std::holds_alternative<WgmmaTactic>(check.tactic) == wgmma;
      });
      expect(p, without, wgmma, !wgmma && stream_must_run(p));
    }
  }
  return missed;
}

}  // namespace

int planted_gaps_missed(std::span<const Tactic> needed, const Device& device) {
  struct Launches {
    const Tactic& tactic;
    const CheckedProblem& problem;
    int variant, repeats;
  };
  const Tactic& victim = needed[needed.size() / 2];
  const auto splits = std::find_if(needed.begin(), needed.end(), can_share);
  int missed = planted_families_missed(needed, device);
  // `keep` says how often the victim is launched of the times planned; 0: it is left out.
  const auto expect = [&](bool gap, const char* planted, const Tactic& of, const std::function<int(Launches)>& keep) {
    Coverage coverage;
    for (const CheckedProblem& p : full_problems()) {
      for (const PlannedCheck& check : planned_checks(p, 0, std::numeric_limits<int>::max(), device)) {
        if (!check.refused.empty()) continue;
        for (int variant = 0; variant < Coverage::kVariants; ++variant) {
          const int repeats = check.tactic == of ? keep({check.tactic, p, variant, check.repeats}) : check.repeats;
          if (repeats > 0) coverage.add(check.tactic, p, variant, repeats, device);
        }
      }
    }
    const std::vector<std::string> gaps = coverage.gaps(needed);
    const bool right = gap ? gaps.size() == 1 && gaps[0].starts_with(to_string(of) + ":") : gaps.empty();
    if (right) return;
    ++missed;
    std::printf("MISSED %s: %zu gaps%s%s\n", planted, gaps.size(), gaps.empty() ? "" : ", first ",
                gaps.empty() ? "" : gaps[0].c_str());
  };
  expect(false, "the plan as it is", victim, [](Launches l) { return l.repeats; });
  expect(true, "a tactic left out of the selection", victim, [](Launches) { return 0; });
  expect(true, "a tactic left out for one format and output type", victim,
         [](Launches l) { return l.variant == 3 ? 0 : l.repeats; });
  int problems = 0;
  expect(true, "a tactic checked on 39 problems", victim, [&](Launches l) {
    if (l.variant != 0 || !has_tails(l.tactic, l.problem)) return l.repeats;
    return ++problems < Coverage::kFewestProblems ? l.repeats : 0;
  });
  expect(true, "a tactic launched 59 times", victim, [](Launches l) { return std::min(l.repeats, 59); });
  expect(true, "a tactic repeated on whole tiles alone", victim,
         [](Launches l) { return has_tails(l.tactic, l.problem) ? 1 : l.repeats; });
  if (splits != needed.end())
    expect(true, "a split tactic repeated unsplit alone", *splits,
           [&](Launches l) { return shares(l.tactic, l.problem, device) ? 1 : l.repeats; });
  return missed;
}

}  // namespace pinch::gpu_test
