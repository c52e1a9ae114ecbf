// Cost models of the `cpu` family: "time" predicts nanoseconds from a machine's constants, "work" counts multiply-adds.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include "kernels/gemm_bf16_fp4/cpu/kernels.h"
#include "kernels/gemm_bf16_fp4/cpu/run.h"
#include "kernels/gemm_bf16_fp4/model.h"
#include "kernels/gemm_bf16_fp4/packed.h"
#include "src/tactics/scan.h"

namespace pinch {
namespace {

constexpr std::string_view kTime = "time", kWork = "work";
constexpr std::array<std::string_view, 2> kModels{kTime, kWork};

using detail::ceil_div;
using detail::round_up;

// Constants that all kernels share, in the order of their values.
enum Shared : std::size_t {
  kFork,             // starting and joining the threads of a call
  kCall,             // one call of an inner kernel, besides its columns
  kWeightsOne,       // weights from memory, one thread reading
  kWeightsAll,       // all threads together
  kActivationsRead,  // packed activations that do not fit L2, one thread
  kPanelRead,        // a panel that does not fit L1, one thread
  kOverlap,          // what part of the shorter of two simultaneous jobs is not hidden behind the longer
  kPack,             // one activation
  kStore,            // one result
  kSums,             // one sum that waits in memory while another block of k is decoded
  kL1Bytes,
  kL2Bytes,
  kDecode,  // one weight into a panel, by instruction set
  kSharedCount = kDecode + 5
};

constexpr std::array<std::pair<std::string_view, std::string_view>, kDecode> kSharedNames{{
    {"threads.fork", "ns"},
    {"gemm.call", "ns"},
    {"weights.read_1", "GB/s"},
    {"weights.read_all", "GB/s"},
    {"activations.read_1", "GB/s"},
    {"panel.read_1", "GB/s"},
    {"gemm.overlap", "ratio"},
    {"gemm.pack", "ns"},
    {"gemm.store", "ns"},
    {"gemm.sums", "ns"},
    {"l1d", "bytes"},
    {"l2", "bytes"},
}};

std::vector<CpuConstant> list_constants() {
  std::vector<CpuConstant> constants;
  for (const auto& [name, unit] : kSharedNames) constants.push_back({std::string(name), unit});
  for (const CpuIsa isa : cpu_isas()) constants.push_back({fmt::format("gemm.decode.{}", to_string(isa)), "ns"});
  for (const CpuKernel& kernel : cpu_kernels()) {
    constants.push_back(
        {fmt::format("gemm.{}.{}.{}x{}", to_string(kernel.path), to_string(kernel.isa), kernel.tile_m, kernel.tile_n),
         "ns/column"});
  }
  return constants;
}

std::vector<CpuKernel> list_kernels() {
  std::vector<CpuKernel> kernels;
  for (const CpuTactic& t : cpu_tactics()) {
    const CpuKernel kernel{t.path, t.isa, t.tile_m, t.tile_n};
    if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) kernels.push_back(kernel);
  }
  return kernels;
}

std::vector<std::size_t> list_kernels_of_tactics() {
  std::vector<std::size_t> places;
  for (const CpuTactic& t : cpu_tactics()) {
    const auto all = cpu_kernels();
    const CpuKernel kernel{t.path, t.isa, t.tile_m, t.tile_n};
    places.push_back(static_cast<std::size_t>(std::find(all.begin(), all.end(), kernel) - all.begin()));
  }
  return places;
}

// Multiply-adds an instruction and lane width, relative to the scalar path.
constexpr double relative_rate(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kScalar:
      return 1;
    case CpuIsa::kAvx2:
      return 16;
    case CpuIsa::kAvx512:
      return 32;
    case CpuIsa::kAvx512Bf16:
      return 40;
    case CpuIsa::kAmxBf16:
      return 128;
  }
  return 1;
}

// Multiply-adds including padding, plus decoding counted as that of 16 rows a pass on the panel path.
Estimate work(const CpuTactic& t, const GemmProblem& p, const Resources& r) {
  const std::int64_t tiles_m = detail::ceil_div(p.m, t.tile_m), tiles_n = detail::ceil_div(p.n, t.tile_n);
  const int workers = t.workers == Workers::kOne ? 1 : std::max(1, r.threads);
  const double rows = static_cast<double>(tiles_m * t.tile_m);
  const double passes = t.path == GemmPath::kStream   ? static_cast<double>(tiles_m) * 0.25
                        : t.raster == Raster::kAlongM ? 1.0
                                                      : static_cast<double>(detail::ceil_div(p.m, kRowBlock));
  const double depth = static_cast<double>(p.n) * static_cast<double>(p.k);
  const double spread = static_cast<double>(std::min<std::int64_t>(workers, tiles_m * tiles_n));
  Estimate e;
  e.cost = depth * (rows + 16 * passes) / relative_rate(t.isa) / spread;
  e.unit = "scalar_multiply_adds";
  e.ctas = tiles_m * tiles_n;
  e.waves = detail::ceil_div(e.ctas, workers);
  return e;
}

const ChosenMachineModel& this_machine() {
  static const ChosenMachineModel chosen = choose_machine_model(cpu_machine(), machine_models());
  return chosen;
}

std::vector<CpuTacticGroup> list_groups() {
  std::vector<CpuTacticGroup> groups;
  for (std::size_t tactic = 0; tactic < cpu_tactics().size(); ++tactic) {
    const std::size_t kernel = kernel_of_tactic()[tactic];
    const Workers workers = cpu_tactics()[tactic].workers;
    if (groups.empty() || groups.back().kernel != kernel || groups.back().workers != workers) {
      groups.push_back({kernel, workers, tactic, tactic});
    }
    groups.back().last = tactic + 1;
  }
  return groups;
}

}  // namespace

std::span<const CpuKernel> cpu_kernels() {
  static const std::vector<CpuKernel> kernels = list_kernels();
  return kernels;
}

std::span<const std::size_t> kernel_of_tactic() {
  static const std::vector<std::size_t> places = list_kernels_of_tactics();
  return places;
}

std::span<const CpuConstant> cpu_constants() {
  static const std::vector<CpuConstant> constants = list_constants();
  return constants;
}

std::span<const CpuTacticGroup> cpu_tactic_groups() {
  static const std::vector<CpuTacticGroup> groups = list_groups();
  return groups;
}

const CpuTimeModel& machine_time_model() {
  // The models are part of the build and a test reads every constant of each.
  static const CpuTimeModel model = CpuTimeModel::from(*this_machine().model).value();
  return model;
}

CpuTimeModel::CpuTimeModel(std::vector<double> values) : values_(std::move(values)) {
  PINCH_ASSERT(values_.size() == cpu_constants().size(), "one value a constant");
  const auto place = [](std::vector<int>& distinct, int size) {
    const auto at = std::find(distinct.begin(), distinct.end(), size);
    if (at != distinct.end()) return static_cast<std::uint8_t>(at - distinct.begin());
    distinct.push_back(size);
    return static_cast<std::uint8_t>(distinct.size() - 1);
  };
  for (const CpuTacticGroup& group : cpu_tactic_groups()) {
    const CpuKernel& kernel = cpu_kernels()[group.kernel];
    const bool panel = kernel.path == GemmPath::kPanel;
    const double column_ns = values_[kSharedCount + group.kernel];
    const double bytes = static_cast<double>(detail::element_bytes(detail::activations_of(kernel.isa))) * kernel.tile_n;
    int least_k_block = cpu_tactics()[group.first].k_block;
    for (std::size_t t = group.first; t < group.last; ++t)
      least_k_block = std::min(least_k_block, cpu_tactics()[t].k_block);
    bounds_.push_back({.column_ns = column_ns,
                       .large_column_ns = overlapped(column_ns, bytes / values_[kPanelRead]),
                       .decode_ns = panel ? values_[kDecode + static_cast<std::size_t>(kernel.isa)] : 0,
                       .panel_column_bytes = panel ? bytes : 0,
                       .least_k_block = least_k_block,
                       .height = place(heights_, kernel.tile_m),
                       .width = place(widths_, kernel.tile_n),
                       .one_worker = group.workers == Workers::kOne,
                       .isa = kernel.isa});
  }
}

double CpuTimeModel::overlapped(double a, double b) const {
  return std::max(a, b) + values_[kOverlap] * std::min(a, b);
}

Result<CpuTimeModel> CpuTimeModel::from(const MachineModel& machine) {
  const auto constants = cpu_constants();
  const auto kernels = cpu_kernels();
  std::vector<double> values;
  for (std::size_t i = 0; i < kSharedCount; ++i) {
    PINCH_ASSIGN(value, machine.constant(constants[i].name, constants[i].unit));
    values.push_back(value);
  }
  std::vector<std::size_t> known, unknown;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto value = machine.constant(constants[kSharedCount + i].name, constants[kSharedCount + i].unit);
    if (!value && value.error().code != ErrorCode::kNotFound) return value.error();
    values.push_back(value ? *value : 0);
    (value ? known : unknown).push_back(i);
  }
  if (known.empty()) return Error{ErrorCode::kNotFound, "no constant of any kernel", machine.name};
  // A kernel newer than the record: the multiply-adds of the most similar one known.
  for (const std::size_t i : unknown) {
    const auto unlike = [&](std::size_t other) {
      const CpuKernel &a = kernels[i], &b = kernels[other];
      const double area = std::log(static_cast<double>(a.tile_m * a.tile_n) / (b.tile_m * b.tile_n));
      return std::tuple(a.path != b.path, std::abs(static_cast<int>(a.isa) - static_cast<int>(b.isa)), std::abs(area));
    };
    const std::size_t like = *std::min_element(known.begin(), known.end(),
                                               [&](std::size_t a, std::size_t b) { return unlike(a) < unlike(b); });
    values[kSharedCount + i] = values[kSharedCount + like] * (kernels[i].tile_m * kernels[i].tile_n) /
                               (kernels[like].tile_m * kernels[like].tile_n);
  }
  return CpuTimeModel(std::move(values));
}

Estimate CpuTimeModel::estimate(std::size_t tactic, const GemmProblem& problem, int threads) const {
  const CpuTactic& t = cpu_tactics()[tactic];
  const auto at = [&](std::size_t constant) { return values_[constant]; };
  const double column_ns = values_[kSharedCount + kernel_of_tactic()[tactic]];

  const detail::RunGrid grid = detail::plan_grid(t, problem, threads);
  const int workers = grid.workers_n * grid.workers_m;
  const double element = static_cast<double>(detail::element_bytes(detail::activations_of(t.isa)));
  const auto padded_k = static_cast<double>(grid.padded_k);

  // What the busiest worker does: the last wave of tiles may leave the others idle.
  const std::int64_t blocks = ceil_div(grid.tiles_n, grid.workers_n);
  const double tiles = static_cast<double>(ceil_div(grid.pass_tiles, grid.workers_m));
  const double passes = static_cast<double>(ceil_div(grid.tiles_m, grid.pass_tiles));
  const double row_blocks = std::max(1.0, tiles / static_cast<double>(grid.block_tiles));
  const double tiles_at_once = tiles / row_blocks;
  const double k_blocks = padded_k / static_cast<double>(grid.k_block);
  const auto columns = static_cast<double>(grid.k_block);

  // One block of channels and one of k, under the rows that pass at once.
  const double weights = columns * t.tile_n;
  const double weight_bits = problem.format == Fp4Format::kNvfp4 ? 4.5 : 4.25;
  const double read = workers == 1 ? at(kWeightsOne) : std::min(at(kWeightsOne), at(kWeightsAll) / workers);
  const double read_ns = weights * weight_bits / 8 / read;
  const double activation_bytes = tiles_at_once * t.tile_m * columns * element;
  const double rows_bytes = tiles_at_once * t.tile_m * padded_k * element;
  const double activations_ns = rows_bytes > at(kL2Bytes) ? activation_bytes / at(kActivationsRead) : 0;
  double call_ns = columns * column_ns + at(kCall);
  double block_ns = 0;
  if (t.path == GemmPath::kStream) {
    block_ns = overlapped(call_ns, read_ns) + overlapped((tiles_at_once - 1) * call_ns, activations_ns);
  } else {
    const double panel_bytes = weights * element;
    if (panel_bytes > at(kL1Bytes)) call_ns = overlapped(call_ns, panel_bytes / at(kPanelRead));
    const double sums = k_blocks > 1 ? tiles_at_once * t.tile_m * t.tile_n : 0;
    block_ns = overlapped(weights * at(kDecode + static_cast<std::size_t>(t.isa)), read_ns) +
               overlapped(tiles_at_once * call_ns, activations_ns) + sums * at(kSums);
  }
  const double rows = tiles * t.tile_m * passes;
  const double store_ns = rows * static_cast<double>(blocks * t.tile_n) * at(kStore);
  const double pack_ns = static_cast<double>(grid.tiles_m * t.tile_m) * padded_k / workers * at(kPack);
  const double work_ns = static_cast<double>(blocks) * k_blocks * row_blocks * passes * block_ns;
  return {.cost = (workers > 1 ? at(kFork) : 0) + pack_ns + work_ns + store_ns,
          .unit = "ns",
          .ctas = grid.tiles_m * grid.tiles_n,
          .waves = ceil_div(grid.tiles_m * grid.tiles_n, workers)};
}

std::optional<RankedTactic> CpuTimeModel::cheapest(const GemmProblem& problem, const Resources& resources) const {
  constexpr std::size_t kMaxGroups = 256, kMaxSizes = 32;
  const auto groups = cpu_tactic_groups();
  const auto tactics = cpu_tactics();
  const auto& choice = cpu_choice();
  if (!choice.ok()) return std::nullopt;
  PINCH_ASSERT(groups.size() <= kMaxGroups && heights_.size() <= kMaxSizes && widths_.size() <= kMaxSizes,
               "raise the limit");
  // No tactic of a group takes less than its bound: estimate() with the work spread evenly over all threads, which
  // every grid of workers exceeds or equals, and without the terms that can only add (sums, activations beyond L2).
  std::array<double, kMaxSizes> tiles_m, tiles_n;
  for (std::size_t i = 0; i < heights_.size(); ++i) tiles_m[i] = static_cast<double>(ceil_div(problem.m, heights_[i]));
  for (std::size_t i = 0; i < widths_.size(); ++i) tiles_n[i] = static_cast<double>(ceil_div(problem.n, widths_[i]));
  const std::int64_t padded_k = round_up(problem.k, detail::chunk_columns(problem.format));
  const auto columns = static_cast<double>(padded_k);
  const double weight_bytes = problem.format == Fp4Format::kNvfp4 ? 4.5 / 8 : 4.25 / 8;
  const bool many = resources.threads > 1;
  const double read_one = weight_bytes / values_[kWeightsOne];
  const double read_all = many ? std::max(read_one, weight_bytes * 2 / values_[kWeightsAll]) : read_one;
  std::array<double, kMaxGroups> bounds;
  std::size_t promising = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Bound& bound = bounds_[g];
    if (!choice->allows(bound.isa)) {
      bounds[g] = std::numeric_limits<double>::infinity();
      continue;
    }
    const double tall = tiles_m[bound.height], wide = tiles_n[bound.width];
    const double rows = tall * heights_[bound.height], channels = wide * widths_[bound.width];
    const double read_ns = bound.one_worker ? read_one : read_all;  // one weight
    double work = rows * columns * values_[kPack] + rows * channels * values_[kStore];
    if (bound.panel_column_bytes > 0) {
      const auto least_columns = static_cast<double>(std::min<std::int64_t>(bound.least_k_block, padded_k));
      const bool large = least_columns * bound.panel_column_bytes > values_[kL1Bytes];
      work += channels * columns * overlapped(bound.decode_ns, read_ns) +
              tall * wide * columns * (large ? bound.large_column_ns : bound.column_ns);
    } else {
      const double call_ns = columns * bound.column_ns + values_[kCall];
      work += wide * ((tall - 1) * call_ns + overlapped(call_ns, columns * widths_[bound.width] * read_ns));
    }
    const bool spread = many && !bound.one_worker;
    // A little less, so that rounding cannot lift it over the estimate.
    bounds[g] = (1 - 1e-9) * (spread ? work / resources.threads + values_[kFork] : work);
    if (bounds[g] < bounds[promising]) promising = g;
  }
  std::optional<RankedTactic> best;
  const auto look_at = [&](std::size_t g) {
    for (std::size_t tactic = groups[g].first; tactic < groups[g].last; ++tactic) {
      if (refusal(tactics[tactic], problem, resources) != Refusal::kNone) continue;
      const RankedTactic candidate{tactic, estimate(tactic, problem, resources.threads)};
      const bool before = !best || candidate.estimate.cost < best->estimate.cost ||
                          (candidate.estimate.cost == best->estimate.cost && tactic < best->index);
      if (before) best = candidate;
    }
  };
  // The most promising group first, so that few others remain under its estimate.
  look_at(promising);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool allowed = bounds[g] < std::numeric_limits<double>::infinity();
    if (g != promising && allowed && !(best && bounds[g] > best->estimate.cost)) look_at(g);
  }
  return best;
}

std::span<const std::string_view> cpu_models() {
  return kModels;
}

std::string_view cpu_calibration(std::string_view model) {
  return model == kTime ? to_string(this_machine().calibration) : std::string_view();
}

namespace {

Result<void> check_threads(int threads) {
  if (threads >= 1) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("threads is {}; the cpu family needs at least 1", threads),
               "threads"};
}

}  // namespace

Result<Estimate> estimate_cpu(std::string_view model, std::size_t tactic, const GemmProblem& problem,
                              const Resources& resources) {
  PINCH_TRY(check_threads(resources.threads));
  if (model == kTime) return machine_time_model().estimate(tactic, problem, resources.threads);
  if (model == kWork) return work(cpu_tactics()[tactic], problem, resources);
  return find_model(cpu_tactic_family(), model).error();
}

Result<std::optional<RankedTactic>> cheapest_cpu(std::string_view model, const GemmProblem& problem,
                                                 const Resources& resources) {
  PINCH_TRY(check_threads(resources.threads));
  if (model == kTime) return machine_time_model().cheapest(problem, resources);
  return scan_for_cheapest(cpu_tactic_family(), model, problem, resources);
}

}  // namespace pinch
