#include "pinch/gemm_cuda.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/gemm_bf16_fp4/arguments.h"
#include "kernels/gemm_bf16_fp4/sm90/backend.h"
#include "kernels/gemm_bf16_fp4/sm90/family.h"
#include "kernels/gemm_bf16_fp4/sm90/prepared_file.h"
#include "src/core/atomic_file.h"
#include "src/core/mapped_file.h"

namespace pinch::cuda {

namespace sm90 = gemm_bf16_fp4::sm90;

namespace detail {

/// What prepared weights are, wherever their bytes lie.
struct ImageShape {
  sm90::Format format = sm90::Format::kNvfp4;
  int n = 0;
  int k = 0;
  float alpha = 1;
  int acc_exponent = 0;  ///< out = accumulator * 2^acc_exponent * alpha

  [[nodiscard]] sm90::PreparedExtent extent() const { return sm90::prepared_extent(format, n, k); }
  [[nodiscard]] std::size_t bytes() const { return extent().codes_bytes + extent().scales_bytes; }
};

struct HostImage : ImageShape {
  std::shared_ptr<const void> owner;  ///< of the bytes: memory, or a mapped file
  std::span<const std::byte> data;
};

struct DeviceImage : ImageShape {
  int device = 0;
  std::shared_ptr<std::byte> data;

  [[nodiscard]] const std::uint8_t* codes() const { return reinterpret_cast<const std::uint8_t*>(data.get()); }
  [[nodiscard]] const std::uint8_t* scales() const { return codes() + extent().codes_bytes; }
};

struct GemmPlanState {
  GemmProblem problem;
  sm90::Tactic tactic;
  const sm90::BuiltKernel* kernel = nullptr;
  const sm90::Device* facts = nullptr;
  std::size_t workspace_bytes = 0;
  std::shared_ptr<const DeviceImage> weights;
};

struct GemmAccess {
  static HostWeights wrap(std::shared_ptr<const HostImage> image) { return HostWeights(std::move(image)); }
  static PreparedWeights wrap(std::shared_ptr<const DeviceImage> image) { return PreparedWeights(std::move(image)); }
  static GemmPlan wrap(std::shared_ptr<const GemmPlanState> state) { return GemmPlan(std::move(state)); }
  static const HostImage& image(const HostWeights& weights) { return *weights.image_; }
  static const std::shared_ptr<const DeviceImage>& image(const PreparedWeights& weights) { return weights.image_; }
  static const GemmPlanState& state(const GemmPlan& plan) { return *plan.state_; }
};

}  // namespace detail

using detail::GemmAccess;

namespace {

Fp4Format public_format(sm90::Format format) {
  return format == sm90::Format::kNvfp4 ? Fp4Format::kNvfp4 : Fp4Format::kMxfp4;
}

/// What can be known without reading the weights. Errors: those of prepare_weights_on_host that are not about scales.
Result<sm90::CanonicalWeights> canonical(const Fp4View& weights) {
  PINCH_TRY(validate_fp4_shape(weights.format, weights.n, weights.k));
  for (const auto& [pointer, name] : {std::pair{weights.codes, "codes"}, std::pair{weights.scales, "scales"}}) {
    if (pointer == nullptr) return Error{ErrorCode::kInvalidArgument, "null; give the weights", name};
  }
  if (!std::isfinite(weights.alpha)) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}; give a finite number", weights.alpha), "alpha"};
  }
  if (weights.n % 8 != 0) {
    return Error{ErrorCode::kIllegal, fmt::format("{}; these kernels take multiples of 8", weights.n), "n"};
  }
  if (weights.k % 32 != 0) {
    return Error{ErrorCode::kIllegal, fmt::format("{}; these kernels take multiples of 32", weights.k), "k"};
  }
  return sm90::CanonicalWeights{weights.codes,
                                weights.scales,
                                static_cast<int>(weights.n),
                                static_cast<int>(weights.k),
                                weights.format == Fp4Format::kNvfp4 ? sm90::Format::kNvfp4 : sm90::Format::kMxfp4,
                                weights.scale_layout == ScaleLayout::kSwizzled128x4};
}

Result<void> check_report(sm90::Format format, const sm90::PrepareReport& report) {
  const sm90::PrepareStatus status = sm90::prepare_status(format, report);
  switch (status) {
    case sm90::PrepareStatus::kOk:
      return {};
    case sm90::PrepareStatus::kNanScale:
      return Error{ErrorCode::kCorrupt, fmt::format("{} of them are NaN", report.nan_scales), "scales"};
    case sm90::PrepareStatus::kNegativeScale:
      return Error{ErrorCode::kCorrupt, fmt::format("{} of them are negative", report.negative_scales), "scales"};
    case sm90::PrepareStatus::kScaleSpan:
      return Error{ErrorCode::kUnsupported,
                   fmt::format("they span 2^{}; these kernels take at most 2^{}", report.max_ue8m0 - report.min_ue8m0,
                               sm90::kMxfp4MaxSpan),
                   "scales"};
    case sm90::PrepareStatus::kBadShape:
      break;
  }
  return Error{ErrorCode::kIllegal, sm90::describe(status), "weights"};
}

/// The shape of prepared weights; their exponent is known once the scales were read.
void set_shape(detail::ImageShape& shape, const sm90::CanonicalWeights& weights, float alpha) {
  shape.format = weights.format;
  shape.n = weights.n;
  shape.k = weights.k;
  shape.alpha = alpha;
}

Result<std::shared_ptr<detail::DeviceImage>> empty_image(const detail::ImageShape& shape, int device) {
  PINCH_TRY(gemm_device(device));
  auto image = std::make_shared<detail::DeviceImage>();
  static_cast<detail::ImageShape&>(*image) = shape;
  image->device = device;
  PINCH_ASSIGN(memory, sm90::allocate(device, shape.bytes()));
  image->data = std::move(memory);
  return image;
}

}  // namespace

std::string_view kernels_absent() {
  return sm90::backend_absent();
}
Result<Device> gemm_device(int ordinal) {
  if (const auto why = kernels_absent(); !why.empty()) {
    return Error{ErrorCode::kUnsupported, std::string(why), "device"};
  }
  return sm90_device(ordinal);
}
std::string_view toolkit_version() {
  return sm90::backend_toolkit();
}

// ---- weights on the host
// ---------------------------------------------------------------------------------------------

HostWeights::HostWeights(std::shared_ptr<const detail::HostImage> image) : image_(std::move(image)) {}
std::int64_t HostWeights::n() const {
  return image_->n;
}
std::int64_t HostWeights::k() const {
  return image_->k;
}
Fp4Format HostWeights::format() const {
  return public_format(image_->format);
}
float HostWeights::alpha() const {
  return image_->alpha;
}
std::span<const std::byte> HostWeights::bytes() const {
  return image_->data;
}

Result<HostWeights> prepare_weights_on_host(const Fp4View& weights) {
  PINCH_ASSIGN(source, canonical(weights));
  auto image = std::make_shared<detail::HostImage>();
  set_shape(*image, source, weights.alpha);
  auto memory = std::make_shared<std::vector<std::uint8_t>>(image->bytes());
  sm90::PrepareReport report{};
  sm90::prepare_weights_host(source, memory->data(), memory->data() + image->extent().codes_bytes, &report);
  PINCH_TRY(check_report(source.format, report));
  image->acc_exponent = sm90::acc_exponent(source.format, report.max_ue8m0);
  image->data = std::as_bytes(std::span(*memory));
  image->owner = std::move(memory);
  return GemmAccess::wrap(std::move(image));
}

Result<void> HostWeights::save(const std::string& path) const {
  const detail::HostImage& image = *image_;
  const sm90::PreparedHeader header =
      sm90::make_header(image.format, image.n, image.k, image.alpha, image.acc_exponent, image.data);
  std::vector<std::byte> front(sm90::kCodesOffsetBytes);
  std::memcpy(front.data(), &header, sizeof header);
  PINCH_ASSIGN(file, AtomicFile::create(path, header.total_bytes));
  PINCH_TRY(file.write(0, front));
  PINCH_TRY(file.write(sm90::kCodesOffsetBytes, image.data));
  return file.commit();
}

Result<HostWeights> HostWeights::load(const std::string& path) {
  PINCH_ASSIGN(file, MappedFile::open(path));
  switch (sm90::file_fault(file->bytes())) {
    case sm90::FileFault::kNone:
      break;
    case sm90::FileFault::kOtherKind:
      return Error{ErrorCode::kCorrupt, "no prepared weights: it starts otherwise", path};
    case sm90::FileFault::kOtherVersion:
      return Error{ErrorCode::kUnsupported,
                   fmt::format("prepared weights of version {}; this program reads version {}: prepare them again",
                               sm90::header_of(file->bytes()).version, sm90::kPreparedVersion),
                   path};
    case sm90::FileFault::kDamaged:
      return Error{ErrorCode::kCorrupt, "damaged: its header, its size and its content do not agree", path};
  }
  const sm90::PreparedHeader& header = sm90::header_of(file->bytes());
  auto image = std::make_shared<detail::HostImage>();
  image->format = header.format;
  image->n = static_cast<int>(header.n);
  image->k = static_cast<int>(header.k);
  image->alpha = header.alpha;
  image->acc_exponent = header.acc_exponent;
  image->data = file->bytes().subspan(sm90::kCodesOffsetBytes);
  image->owner = file;
  return GemmAccess::wrap(std::move(image));
}

// ---- weights on a device
// ---------------------------------------------------------------------------------------------

PreparedWeights::PreparedWeights(std::shared_ptr<const detail::DeviceImage> image) : image_(std::move(image)) {}
PreparedWeights::PreparedWeights(PreparedWeights&&) noexcept = default;
PreparedWeights& PreparedWeights::operator=(PreparedWeights&&) noexcept = default;
PreparedWeights::~PreparedWeights() = default;

std::int64_t PreparedWeights::n() const {
  return image_->n;
}
std::int64_t PreparedWeights::k() const {
  return image_->k;
}
Fp4Format PreparedWeights::format() const {
  return public_format(image_->format);
}
float PreparedWeights::alpha() const {
  return image_->alpha;
}
int PreparedWeights::device() const {
  return image_->device;
}
std::size_t PreparedWeights::bytes() const {
  return image_->bytes();
}
const std::byte* PreparedWeights::data() const {
  return image_->data.get();
}

Result<PreparedWeights> prepare_weights(const Fp4View& weights, int device, Stream stream) {
  PINCH_ASSIGN(source, canonical(weights));
  detail::ImageShape shape;
  set_shape(shape, source, weights.alpha);
  PINCH_ASSIGN(image, empty_image(shape, device));
  PINCH_TRY(sm90::check_memory(device, weights.codes, "codes"));
  PINCH_TRY(sm90::check_memory(device, weights.scales, "scales"));
  auto* codes = reinterpret_cast<std::uint8_t*>(image->data.get());
  PINCH_ASSIGN(report, sm90::prepare_on_device(source, codes, codes + shape.extent().codes_bytes, device, stream));
  PINCH_TRY(check_report(source.format, report));
  image->acc_exponent = sm90::acc_exponent(source.format, report.max_ue8m0);
  return GemmAccess::wrap(std::shared_ptr<const detail::DeviceImage>(std::move(image)));
}

Result<PreparedWeights> to_device(const HostWeights& weights, int device) {
  const detail::HostImage& source = GemmAccess::image(weights);
  PINCH_ASSIGN(image, empty_image(source, device));
  PINCH_TRY(sm90::copy_to_device(device, image->data.get(), source.data));
  return GemmAccess::wrap(std::shared_ptr<const detail::DeviceImage>(std::move(image)));
}

Result<HostWeights> to_host(const PreparedWeights& weights) {
  const detail::DeviceImage& source = *GemmAccess::image(weights);
  auto image = std::make_shared<detail::HostImage>();
  static_cast<detail::ImageShape&>(*image) = source;
  auto memory = std::make_shared<std::vector<std::byte>>(source.bytes());
  PINCH_TRY(sm90::copy_to_host(source.device, *memory, source.data.get()));
  image->data = *memory;
  image->owner = std::move(memory);
  return GemmAccess::wrap(std::shared_ptr<const detail::HostImage>(std::move(image)));
}

// ---- plans
// -----------------------------------------------------------------------------------------------------------

GemmPlan::GemmPlan(std::shared_ptr<const detail::GemmPlanState> state) : state_(std::move(state)) {}
std::string GemmPlan::tactic() const {
  return sm90::to_string(state_->tactic);
}
int GemmPlan::device() const {
  return state_->weights->device;
}
const GemmProblem& GemmPlan::problem() const {
  return state_->problem;
}
std::size_t GemmPlan::workspace_bytes() const {
  return state_->workspace_bytes;
}

namespace {

sm90::WgmmaProblem sizes_of(const GemmProblem& problem) {
  return {static_cast<int>(problem.m), static_cast<int>(problem.n), static_cast<int>(problem.k)};
}

Result<std::size_t> choose_tactic(const std::string& name, const GemmProblem& problem, const Resources& resources) {
  const TacticFamily& family = built_tactics();
  if (name.empty()) {
    PINCH_ASSIGN(pick, default_tactic(family, problem, resources));
    return pick.index;
  }
  PINCH_ASSIGN(index, parse_tactic(family, name));
  if (auto reason = family.illegal(index, problem, resources)) return Error{ErrorCode::kIllegal, *reason, name};
  return index;
}

}  // namespace

Result<GemmPlan> plan_gemm(const PreparedWeights& weights, std::int64_t m, const GemmOptions& options) {
  PINCH_TRY(pinch::detail::check_rows(m));
  auto state = std::make_shared<detail::GemmPlanState>();
  state->weights = GemmAccess::image(weights);
  state->problem = {m, weights.n(), weights.k(), weights.format(), options.output};
  PINCH_ASSIGN(facts, sm90::launch_device(weights.device()));
  state->facts = facts;
  Resources resources;
  resources.sm_count = facts->wgmma.sm_count;
  PINCH_ASSIGN(index, choose_tactic(options.tactic, state->problem, resources));
  state->tactic = sm90::tactics()[index];
  // The device's own facts have the last word: the family knows it by its multiprocessors alone.
  if (const auto why = sm90::illegal(state->tactic, sizes_of(state->problem), *facts); !why.empty()) {
    return Error{ErrorCode::kIllegal, std::string(why), sm90::to_string(state->tactic)};
  }
  state->kernel = sm90::find_kernel(state->tactic, state->weights->format, options.output);
  state->workspace_bytes = sm90::workspace_bytes(state->tactic, sizes_of(state->problem), *facts);
  return GemmAccess::wrap(std::shared_ptr<const detail::GemmPlanState>(std::move(state)));
}

Result<void> clear_workspace(std::span<std::byte> workspace, int device, Stream stream) {
  if (workspace.empty()) return {};
  PINCH_TRY(pinch::detail::check_workspace(workspace, workspace.size(), kPointerAlignment));
  PINCH_TRY(gemm_device(device));
  PINCH_TRY(sm90::check_memory(device, workspace.data(), "workspace"));
  return sm90::enqueue_zeros(device, workspace.data(), std::min(workspace.size(), sm90::kFlagBytes), stream);
}

Result<void> run_gemm(const GemmPlan& plan, const Bf16* a, std::int64_t lda, void* out, std::int64_t ldo,
                      std::span<std::byte> workspace, Stream stream) {
  const detail::GemmPlanState& state = GemmAccess::state(plan);
  const detail::DeviceImage& weights = *state.weights;
  PINCH_TRY(pinch::detail::check_operands(a, lda, state.problem.k, out, ldo, state.problem.n));
  PINCH_TRY(pinch::detail::check_layout(a, lda, out, ldo, kStrideMultiple, kPointerAlignment));
  PINCH_TRY(pinch::detail::check_workspace(workspace, state.workspace_bytes, kPointerAlignment));
  PINCH_TRY(sm90::check_memory(weights.device, a, "a"));
  PINCH_TRY(sm90::check_memory(weights.device, out, "out"));
  if (state.workspace_bytes > 0) PINCH_TRY(sm90::check_memory(weights.device, workspace.data(), "workspace"));
  const sm90::LaunchCall call{.a = a,
                              .lda = static_cast<int>(lda),
                              .codes = weights.codes(),
                              .scales = weights.scales(),
                              .alpha = weights.alpha,
                              .acc_exponent = weights.acc_exponent,
                              .out = out,
                              .ldo = static_cast<int>(ldo),
                              .sizes = sizes_of(state.problem),
                              .output = state.problem.output,
                              .workspace = workspace.data()};
  return sm90::launch(*state.kernel, state.tactic, call, *state.facts, weights.device, stream);
}

}  // namespace pinch::cuda
