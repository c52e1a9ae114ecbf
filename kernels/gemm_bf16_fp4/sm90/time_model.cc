// TimeModel of model.h.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

#include "kernels/gemm_bf16_fp4/sm90/model.h"
#include "pinch/assert.h"

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

// Constants that all kernels share, in the order of their values.
enum Shared : std::size_t {
  kLaunch,         // the wgmma kernel, before its first product and after its last
  kStreamLaunch,   // the streaming kernel, the same
  kClusterLaunch,  // what launching clusters adds
  kDram,           // weights and activations from memory, through the copy engine
  kStreamDram,     // weights from memory straight to registers
  kL2,             // stages from L2 to all multiprocessors
  kStageLatency,   // from the free slot of a ring to its next contents: a ring of s stages waits for one s-th of it
  kOverlap,        // wgmma: what of the shorter of computing and copying is not hidden behind the longer
  kStreamOverlap,  // the same of the streaming kernel
  kTile,           // starting and ending a tile
  kStore,          // a CTA writing its output tile
  kShare,          // sharing a tile's k through memory, once
  kPart,           // each part of it that the last worker waits for
  kPartCopy,       // a CTA writing or adding a partial tile
  kExchange,       // sharing k inside a cluster, once a tile
  kExchangeCopy,   // its partial sums
  kMxfp4,          // an iteration on MXFP4 weights, of one on NVFP4
  kStreamMxfp4,    // a 16 x 64 tile, the same
  kPower,          // slower clocks under power in a long launch
  kActivations,    // a multiprocessor fetching activations, by the copy engine
  kGroup,          // streaming: adding up and storing a row group
  kRound,          // a warp's loads of in_flight tiles
  kStreamSplit,    // adding up the blocks of a cluster
  kBalance,        // row groups cut where equal shares end
  kSharedCount
};
constexpr std::array<std::pair<std::string_view, std::string_view>, kSharedCount> kSharedNames{{
    {"wgmma.launch", "ns"},        {"stream.launch", "ns"},
    {"launch.cluster", "ns"},      {"wgmma.dram", "GB/s"},
    {"stream.dram", "GB/s"},       {"wgmma.l2", "GB/s"},
    {"wgmma.stage_latency", "ns"}, {"wgmma.overlap", "ratio"},
    {"stream.overlap", "ratio"},   {"wgmma.tile", "ns"},
    {"wgmma.store", "GB/s"},       {"wgmma.share", "ns"},
    {"wgmma.part", "ns"},          {"wgmma.part_copy", "GB/s"},
    {"wgmma.exchange", "ns"},      {"wgmma.exchange_copy", "GB/s"},
    {"wgmma.mxfp4", "ratio"},      {"stream.mxfp4", "ratio"},
    {"wgmma.power", "ratio"},      {"stream.activations", "GB/s"},
    {"stream.group", "ns"},        {"stream.round", "ns"},
    {"stream.split", "ns"},        {"stream.balance", "ns"},
}};
// A launch this long has lost half of what power takes.
constexpr double kPowerNs = 200'000;

double weights_bytes(const ModelProblem& call) {
  return static_cast<double>(call.sizes.n) * call.sizes.k * weight_bytes(call.format);
}
// What the wgmma kernel reads from memory.
double operand_bytes(const ModelProblem& call) {
  return weights_bytes(call) + static_cast<double>(call.sizes.m) * call.sizes.k * 2;
}
// What the ring of a CTA takes from L2 an iteration.
double stage_bytes(const WgmmaTile& tile, Fp4Format format) {
  return tile.tile_k * (tile.tile_n * weight_bytes(format) + tile.tile_m * 2.0 / tile.cluster_n);
}

bool same_kernel(const Tactic& a, const Tactic& b) {
  if (a.index() != b.index()) return false;
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&a)) return wgmma->tile == std::get<WgmmaTactic>(b).tile;
  return instance_of(std::get<StreamTactic>(a)) == instance_of(std::get<StreamTactic>(b));
}

std::vector<KernelTactics> list_kernels() {
  std::vector<KernelTactics> all;
  const auto tactics = sm90::tactics();
  for (std::size_t index = 0; index < tactics.size(); ++index) {
    if (all.empty() || !same_kernel(tactics[all.back().first], tactics[index])) all.push_back({index, index});
    all.back().last = index + 1;
  }
  return all;
}

std::vector<std::size_t> list_kernel_of_tactics() {
  std::vector<std::size_t> places;
  for (std::size_t kernel = 0; kernel < kernel_tactics().size(); ++kernel)
    places.resize(kernel_tactics()[kernel].last, kernel);
  return places;
}
std::span<const std::size_t> kernel_of_tactic() {
  static const std::vector<std::size_t> places = list_kernel_of_tactics();
  return places;
}

std::vector<Constant> list_constants() {
  std::vector<Constant> all;
  for (const auto& [name, unit] : kSharedNames) all.push_back({std::string(name), unit});
  for (const KernelTactics& kernel : kernel_tactics()) all.push_back({kernel.name(), "ns"});
  return all;
}

// Work in one iteration of a kernel, for kernels of which nothing was measured.
double work_of(const Tactic& tactic) {
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) {
    return static_cast<double>(wgmma->tile.tile_n) * wgmma->tile.tile_k * (16 + wgmma->tile.tile_m);
  }
  return 1;  // a 16 x 64 tile
}

}  // namespace

std::string KernelTactics::name() const {
  const std::string name = to_string(tactics()[first]);
  if (std::holds_alternative<WgmmaTactic>(tactics()[first])) return name.substr(0, name.find("/split"));
  const StreamInstance i = instance_of(std::get<StreamTactic>(tactics()[first]));
  return name.substr(0, name.find("/w")) + "/w" + std::to_string(i.warps_per_sm) + "/t" + std::to_string(i.k_warps);
}

std::span<const KernelTactics> kernel_tactics() {
  static const std::vector<KernelTactics> all = list_kernels();
  return all;
}

std::span<const Constant> constants() {
  static const std::vector<Constant> all = list_constants();
  return all;
}

TimeModel::TimeModel(std::vector<double> values) : values_(std::move(values)) {
  PINCH_ASSERT(values_.size() == constants().size(), "one value a constant");
  const auto at = [&](std::size_t constant) { return values_[constant]; };
  for (std::size_t i = 0; i < kernel_tactics().size(); ++i) {
    Kernel& kernel = kernels_.emplace_back();
    const Tactic& tactic = tactics()[kernel_tactics()[i].first];
    const auto* wgmma = std::get_if<WgmmaTactic>(&tactic);
    kernel.wgmma = wgmma != nullptr;
    for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
      const auto f = static_cast<std::size_t>(format);
      const double slower = format == Fp4Format::kNvfp4 ? 1 : at(kernel.wgmma ? kMxfp4 : kStreamMxfp4);
      kernel.computing_ns[f] = values_[kSharedCount + i] * slower;
      if (!kernel.wgmma) continue;
      kernel.computing_ns[f] = std::max(kernel.computing_ns[f], at(kStageLatency) / wgmma->tile.stages);
      kernel.l2_ns[f] = wgmma->tile.cluster_n * stage_bytes(wgmma->tile, format) / at(kL2);
    }
    if (kernel.wgmma) {
      const WgmmaTile& tile = wgmma->tile;
      const double tile_values = static_cast<double>(tile.tile_n) * tile.tile_m;
      kernel.tile_n = tile.tile_n * tile.cluster_n;
      kernel.tile_m = tile.tile_m;
      kernel.tile_k = tile.tile_k;
      kernel.cluster = tile.cluster_n * tile.cluster_k;
      kernel.cluster_log2 = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(kernel.cluster)));
      kernel.cluster_k = tile.cluster_k;
      kernel.per_tile_n = 1.0 / kernel.tile_n;
      kernel.per_tile_m = 1.0 / kernel.tile_m;
      kernel.per_tile_k = 1.0 / kernel.tile_k;
      kernel.per_cluster_k = 1.0 / kernel.cluster_k;
      kernel.fixed_ns = at(kLaunch) + at(kTile) + (kernel.cluster > 1 ? at(kClusterLaunch) : 0);
      kernel.store_ns = tile_values / tile.cluster_k / at(kStore);
      kernel.copy_ns = tile_values * 4 / at(kPartCopy);
      kernel.sharing_ns = at(kShare) + kernel.copy_ns;
      if (tile.cluster_k > 1)
        kernel.exchange_ns =
            at(kExchange) + tile_values * 4 / tile.cluster_k * (tile.cluster_k - 1) / at(kExchangeCopy);
    } else {
      const StreamInstance instance = instance_of(std::get<StreamTactic>(tactic));
      kernel.tile_n = 16 * instance.row_tiles;
      kernel.tile_m = 8 * instance.m_blocks;
      kernel.per_k_warps = 1.0 / instance.k_warps;
      kernel.per_round = static_cast<double>(kTileRows) * instance.k_warps / (kernel.tile_n * instance.warps_per_sm);
      for (double& ns : kernel.computing_ns) ns *= instance.row_tiles * instance.warps_per_sm;
      kernel.fixed_ns = at(kStreamLaunch);
      kernel.sharing_ns = std::min(at(kBalance) + at(kGroup), at(kStreamSplit) + at(kClusterLaunch));
    }
  }
}

Result<TimeModel> TimeModel::from(const MachineModel& machine) {
  std::vector<double> values;
  for (std::size_t i = 0; i < kSharedCount; ++i) {
    PINCH_ASSIGN(value, machine.constant(constants()[i].name, constants()[i].unit));
    values.push_back(value);
  }
  std::vector<std::size_t> known;
  for (std::size_t i = 0; i < kernel_tactics().size(); ++i) {
    const auto value = machine.constant(kernel_tactics()[i].name(), "ns");
    if (!value && value.error().code != ErrorCode::kNotFound) return value.error();
    values.push_back(value ? *value : 0);
    if (value) known.push_back(i);
  }
  for (std::size_t i = 0; i < kernel_tactics().size(); ++i) {
    if (values[kSharedCount + i] > 0) continue;
    const Tactic& tactic = tactics()[kernel_tactics()[i].first];
    const auto unlike = [&](std::size_t other) {
      const Tactic& known_tactic = tactics()[kernel_tactics()[other].first];
      return std::tuple(tactic.index() != known_tactic.index(),
                        std::abs(std::log(work_of(known_tactic) / work_of(tactic))), other);
    };
    if (known.empty()) return Error{ErrorCode::kNotFound, "no constant of any kernel", machine.name};
    const std::size_t like = *std::min_element(known.begin(), known.end(),
                                               [&](std::size_t a, std::size_t b) { return unlike(a) < unlike(b); });
    values[kSharedCount + i] =
        values[kSharedCount + like] * work_of(tactic) / work_of(tactics()[kernel_tactics()[like].first]);
  }
  return TimeModel(std::move(values));
}

double TimeModel::with_power(double ns) const {
  return ns * (1 + values_[kPower] * ns / (ns + kPowerNs));
}

double TimeModel::before_power(double ns) const {
  const double slope = 1 + values_[kPower], less = ns - kPowerNs;
  return (less + std::sqrt(less * less + 4 * slope * ns * kPowerNs)) / (2 * slope);
}

namespace {

// std::ceil of numbers that are not negative, without the call that a build for every x86-64 makes of it.
double ceiling(double x) {
  if (!(x < 9e18)) return x;
  const auto whole = static_cast<double>(static_cast<std::int64_t>(x));
  return whole < x ? whole + 1 : whole;
}

double overlapped(double a, double b, double exposed) {
  return std::max(a, b) + exposed * std::min(a, b);
}

// The wgmma kernel's busiest worker.
struct BusiestWorker {
  double iterations = 0;
  double segments = 1;  // tiles that it starts
  double stores = 1;    // tiles that it ends
  double parts = 1;     // workers that share a tile through memory
};

BusiestWorker busiest_of(const WgmmaTile& tile, const Schedule& s, int capacity) {
  const double tiles = s.tiles(), k_iterations = s.k_iterations;
  BusiestWorker w;
  if (tile.cluster_k > 1) {
    w.segments = w.stores = ceiling(tiles / capacity);
    w.iterations = w.segments * ceiling(k_iterations / tile.cluster_k);
  } else if (s.split > 1) {
    w.segments = w.stores = ceiling(static_cast<double>(s.workers) / capacity);
    w.iterations = w.segments * ceiling(k_iterations / s.split);
    w.parts = s.split;
  } else if (s.shared_tiles > 0) {
    const double range = ceiling(static_cast<double>(s.shared_tiles) * k_iterations / s.workers);
    const double whole = static_cast<double>((s.tiles() - s.shared_tiles) / s.workers);
    w.iterations = whole * k_iterations + range;
    w.segments = whole + 1 + (range < k_iterations && s.shared_tiles == s.workers ? 0 : 1);
    w.stores = ceiling(whole + range / k_iterations);
    w.parts = 1 + k_iterations / range;
  } else {
    w.segments = w.stores = ceiling(tiles / s.workers);
    w.iterations = w.segments * k_iterations;
  }
  return w;
}

}  // namespace

double TimeModel::nanoseconds(std::size_t index, const ModelProblem& call, const Device& device) const {
  const std::size_t kernel = kernel_of_tactic()[index];
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactics()[index]))
    return with_power(wgmma_ns(kernels_[kernel], *wgmma, make_schedule(*wgmma, call.sizes, device.wgmma), call, device,
                               dram_ns(call)));
  return stream_ns(kernel, std::get<StreamTactic>(tactics()[index]), call, device);
}

double TimeModel::dram_ns(const ModelProblem& call) const {
  return operand_bytes(call) / values_[kDram];
}

double TimeModel::wgmma_ns(const Kernel& kernel, const WgmmaTactic& tactic, const Schedule& s, const ModelProblem& call,
                           const Device& device, double dram_ns) const {
  const auto format = static_cast<std::size_t>(call.format);
  const BusiestWorker w = busiest_of(tactic.tile, s, device.wgmma.sm_count / kernel.cluster);
  const double clusters = std::min(device.wgmma.sm_count / kernel.cluster, s.workers);
  // A cluster's CTAs share its stages along n and part them along k.
  const double copied = std::max(w.iterations * clusters * kernel.cluster_k * kernel.l2_ns[format], dram_ns);
  double ns = kernel.fixed_ns + overlapped(w.iterations * kernel.computing_ns[format], copied, values_[kOverlap]) +
              (w.segments - 1) * values_[kTile] + w.stores * kernel.store_ns * output_bytes(call.output) +
              w.segments * kernel.exchange_ns;
  if (w.parts > 1) ns += kernel.sharing_ns + (w.parts - 1) * (values_[kPart] + kernel.copy_ns);
  return ns;
}

double TimeModel::stream_ns(std::size_t kernel, const StreamTactic& t, const ModelProblem& call,
                            const Device& device) const {
  const auto at = [&](std::size_t constant) { return values_[constant]; };
  const WgmmaProblem& p = call.sizes;
  const int teams = t.warps / t.k_warps;
  const int level = t.split_k == 1 ? 0 : t.split_k == 2 ? 1 : t.split_k == 4 ? 2 : 3;
  // Two blocks fetch their activations together where none shares a row group.
  const int share = fetch_of(t, {p.m, p.n, p.k}, device.stream) == Fetch::kTwoBlocks ? 2 : 1;
  const std::int64_t col_tiles = ceil_div(p.k, kTileCols);
  const std::int64_t row_groups = ceil_div(p.n, kTileRows) * (kTileRows / 16) / t.row_tiles;
  // As launch() deals them out.
  const std::int64_t pieces = t.balance == 1 ? row_groups * col_tiles : row_groups;
  const std::int64_t resident = std::int64_t{device.stream.clusters[share == 2 ? 1 : level]} * share * t.blocks_per_sm;
  const std::int64_t clusters = ceil_div(std::min(resident, ceil_div(pieces, teams)), share) * share;
  const double slice = ceiling(static_cast<double>(col_tiles) / t.split_k);
  double groups = 0, tiles = 0, rounds = 0;  // of the busiest team; tiles and rounds of a warp of it
  if (t.balance == 1) {
    const double dealt = ceiling(static_cast<double>(pieces) / static_cast<double>(clusters * teams));
    groups = dealt / static_cast<double>(col_tiles) + 1;
    tiles = dealt / t.k_warps;
    rounds = groups + tiles / t.in_flight;
  } else {
    groups = ceiling(static_cast<double>(row_groups) / static_cast<double>(clusters * teams));
    tiles = groups * ceiling(slice / t.k_warps);
    rounds = groups * ceiling(slice / (t.k_warps * t.in_flight));
  }
  const auto blocks = static_cast<double>(
      std::min<std::int64_t>(t.blocks_per_sm, ceil_div(clusters * t.split_k, device.stream.sm_count)));
  const double kernel_ns = values_[kSharedCount + kernel] * (call.format == Fp4Format::kMxfp4 ? at(kStreamMxfp4) : 1);
  const double work = tiles * t.row_tiles * blocks * t.warps * kernel_ns + rounds * at(kRound);
  const double activations = blocks * p.m * slice * kTileCols * 2;
  return at(kStreamLaunch) + activations / at(kActivations) +
         overlapped(work, weights_bytes(call) / at(kStreamDram), at(kStreamOverlap)) + groups * at(kGroup) +
         (t.split_k > 1 ? at(kStreamSplit) + at(kClusterLaunch) : 0) + (t.balance == 1 ? at(kBalance) : 0);
}

// Clusters of 1, 2, 4 and 8 CTAs that run at once, inverse.
std::array<double, 4> inverse_capacities(int sm_count) {
  std::array<double, 4> inverse{};
  for (std::size_t log2 = 0; log2 < inverse.size(); ++log2) inverse[log2] = 1.0 / std::max(1, sm_count >> log2);
  return inverse;
}

// The least of two that no schedule beats: whole tiles, or the work spread evenly and what sharing tiles costs at
// least. Terms that can only add are left out.
TimeModel::Bound TimeModel::bound(const Kernel& kernel, const Sizes& sizes) const {
  // Of products with inverses: rounding must not lift a whole number over itself.
  const auto count = [](double x) { return ceiling(x * (1 - 1e-12)); };
  const double computing_ns = kernel.computing_ns[sizes.format];
  if (!kernel.wgmma) {
    if (sizes.m > kernel.tile_m) return {std::numeric_limits<double>::infinity()};
    const double shares = sizes.row_tiles * kernel.per_round * sizes.per_sm;  // row groups a team
    const double groups = count(shares);
    // Half as many teams' warps where one of a multiprocessor's two blocks has nothing to do.
    const double busy = shares < 0.5 + 1e-9 ? 0.5 : 1;
    const double whole = overlapped(groups * count(sizes.col_tiles * kernel.per_k_warps) * computing_ns * busy,
                                    sizes.stream_dram_ns, values_[kStreamOverlap]) +
                         groups * values_[kGroup];
    const double even = overlapped(shares * sizes.col_tiles * kernel.per_k_warps * computing_ns, sizes.stream_dram_ns,
                                   values_[kStreamOverlap]) +
                        kernel.sharing_ns;
    return {kernel.fixed_ns + std::min(whole, even)};
  }
  if (sizes.sm_count < kernel.cluster) return {std::numeric_limits<double>::infinity()};
  const double k_iterations = count(sizes.k * kernel.per_tile_k);
  const double tiles = count(sizes.m * kernel.per_tile_m) * count(sizes.n * kernel.per_tile_n);
  const double shares = tiles * sizes.per_capacity[kernel.cluster_log2];  // tiles a cluster
  const double waves = count(shares);
  const double copied = std::max(tiles * k_iterations * kernel.l2_ns[sizes.format], sizes.dram_ns);
  const double whole =
      overlapped(waves * count(k_iterations * kernel.per_cluster_k) * computing_ns, copied, values_[kOverlap]);
  // Some cluster ends as many tiles as there are waves, and starts as many; with fewer columns than a share of stream-k
  // the model counts fewer starts.
  const double starts = sizes.k < kFewestColumns ? 1 : waves;
  const double fixed = kernel.fixed_ns + (starts - 1) * values_[kTile] + waves * kernel.store_ns * sizes.output_bytes +
                       starts * kernel.exchange_ns;
  const double even = overlapped(shares * k_iterations * computing_ns, copied, values_[kOverlap]) + kernel.sharing_ns;
  return {fixed + (kernel.cluster_k == 1 ? std::min(whole, even) : whole), fixed + even};
}

std::optional<RankedTactic> TimeModel::cheapest(const ModelProblem& call, const Device& device) const {
  constexpr std::size_t kMostKernels = 40;
  const auto all = kernel_tactics();
  const auto all_tactics = tactics();
  PINCH_ASSERT(all.size() <= kMostKernels, "raise the limit");
  constexpr double kLess = 1 - 1e-9;  // so that rounding cannot lift a bound over the estimate
  const auto tiles_of = [](int extent) { return static_cast<double>(ceil_div(extent, kTileRows)); };
  static_assert(kTileRows == kTileCols);
  const Sizes sizes{.m = static_cast<double>(call.sizes.m),
                    .n = static_cast<double>(call.sizes.n),
                    .k = static_cast<double>(call.sizes.k),
                    .row_tiles = tiles_of(call.sizes.n),
                    .col_tiles = tiles_of(call.sizes.k),
                    .dram_ns = dram_ns(call),
                    .stream_dram_ns = weights_bytes(call) / values_[kStreamDram],
                    .output_bytes = output_bytes(call.output),
                    .format = static_cast<std::size_t>(call.format),
                    .sm_count = device.wgmma.sm_count,
                    .per_sm = 1.0 / device.wgmma.sm_count,
                    .per_capacity = inverse_capacities(device.wgmma.sm_count)};
  std::array<double, kMostKernels> bounds{}, evens{};
  std::size_t promising = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Bound of_kernel = bound(kernels_[i], sizes);
    bounds[i] = kLess * of_kernel.least_ns;
    evens[i] = kLess * of_kernel.even_ns;
    if (bounds[i] < bounds[promising]) promising = i;
  }
  const StreamProblem stream_problem{call.sizes.m, call.sizes.n, call.sizes.k};
  std::size_t best = all_tactics.size();
  double best_ns = std::numeric_limits<double>::infinity();
  // The same before power, a little more: with it the wgmma kernel's times are compared without a division each.
  double best_before_power = best_ns;
  const auto consider = [&](std::size_t index, double ns) {
    if (ns > best_ns || (ns == best_ns && index > best)) return;
    best = index;
    best_ns = ns;
    best_before_power = before_power(ns) * (1 + 1e-9);
  };
  const auto look_at_wgmma = [&](std::size_t kernel) {
    int timed_split = -1;
    for (std::size_t index = all[kernel].first; index < all[kernel].last; ++index) {
      const auto& tactic = *std::get_if<WgmmaTactic>(&all_tactics[index]);
      // The raster changes no time here, and the earlier tactic wins a tie.
      if (tactic.split_k == timed_split) continue;
      if (index == all[kernel].first && too_many_tiles(tactic.tile, call.sizes)) return;
      if (const int parts = tactic.split_k; parts != 1) {
        const double more_ns = std::max(0, parts - 1) * (values_[kPart] + kernels_[kernel].copy_ns);
        if (evens[kernel] + kLess * more_ns > best_before_power) continue;
      }
      const Schedule schedule = make_schedule(tactic, call.sizes, device.wgmma);
      if (!illegal_schedule(tactic, schedule).empty()) continue;
      timed_split = tactic.split_k;
      const double ns = wgmma_ns(kernels_[kernel], tactic, schedule, call, device, sizes.dram_ns);
      if (ns <= best_before_power) consider(index, with_power(ns));
    }
  };
  const auto look_at_stream = [&](std::size_t kernel) {
    for (std::size_t index = all[kernel].first; index < all[kernel].last; ++index) {
      const auto& tactic = *std::get_if<StreamTactic>(&all_tactics[index]);
      if (illegal(tactic, stream_problem, device.stream) != nullptr) continue;
      consider(index, stream_ns(kernel, tactic, call, device));
    }
  };
  const auto look_at = [&](std::size_t kernel) {
    if (std::isinf(bounds[kernel])) return;
    if (kernels_[kernel].wgmma) {
      if (bounds[kernel] <= best_before_power) look_at_wgmma(kernel);
    } else if (bounds[kernel] <= best_ns) {
      look_at_stream(kernel);
    }
  };
  look_at(promising);  // first, so that few others remain under its time
  for (std::size_t kernel = 0; kernel < all.size(); ++kernel) {
    if (kernel != promising) look_at(kernel);
  }
  if (best == all_tactics.size()) return std::nullopt;
  const Grid grid = grid_of(all_tactics[best], call.sizes, device);
  return RankedTactic{best, {best_ns, "ns", grid.ctas, ceil_div(grid.ctas, grid.slots)}};
}

const TimeModel& h200_time_model() {
  // The constants are part of the build and a test reads each of them.
  static const TimeModel model = TimeModel::from(h200_machine_model()).value();
  return model;
}

}  // namespace pinch::gemm_bf16_fp4::sm90
