// oneDNN matmul on bf16 weights: as dequantised, and reordered to the layout that oneDNN itself prefers.
#include <fmt/core.h>
#include <omp.h>

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "workbench/peers/make_peers.h"

namespace pinch::peers {
namespace {

using dnnl::memory;

std::string isa_name() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx512_core_amx:
      return "amx_bf16";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_bf16";
    case dnnl::cpu_isa::avx512_core_vnni:
    case dnnl::cpu_isa::avx512_core:
      return "avx512";
    case dnnl::cpu_isa::avx2_vnni:
    case dnnl::cpu_isa::avx2:
      return "avx2";
    default:
      return fmt::format("isa {:#x}", static_cast<unsigned>(dnnl::get_effective_cpu_isa()));
  }
}

class OneDnn final : public Peer {
 public:
  OneDnn(const PeerProblem& problem, bool prepacked)
      : problem_(problem.problem),
        threads_(problem.threads),
        prepacked_(prepacked),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_) {
    const auto out_type = problem_.output == OutputType::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const auto bf16 = memory::data_type::bf16;
    plain_ = {{problem_.k, problem_.n}, bf16, memory::format_tag::ba};  // [n, k] row-major, seen as [k, n]
    const memory::desc source({problem_.m, problem_.k}, bf16, memory::format_tag::ab);
    const memory::desc wanted =
        prepacked ? memory::desc({problem_.k, problem_.n}, bf16, memory::format_tag::any) : plain_;
    out_ = {{problem_.m, problem_.n}, out_type, memory::format_tag::ab};
    dnnl::primitive_attr attributes;
    attributes.set_output_scales(0, {DNNL_RUNTIME_F32_VAL});  // alpha, which keeps bf16 weights exact
    omp_set_num_threads(threads_);                            // the primitive is made for so many
    description_ = {{source, wanted, out_}, attributes, engine_};
    matmul_ = dnnl::matmul(description_);
    // oneDNN takes mutable memory for what it only reads.
    source_ = memory(source, engine_, const_cast<Bf16*>(problem.a));
    scale_ = memory({{1}, memory::data_type::f32, memory::format_tag::x}, engine_);
  }

  [[nodiscard]] std::string name() const override { return prepacked_ ? "oneDNN bf16 prepacked" : "oneDNN bf16 plain"; }
  [[nodiscard]] std::string numerics() const override {
    return fmt::format("bf16 weights, exact; FP32 sums ({})", isa_name());
  }
  [[nodiscard]] OutputType output() const override { return problem_.output; }
  [[nodiscard]] std::size_t weight_bytes() const override { return description_.weights_desc().get_size(); }

  Result<void> add_weights(const Fp4View& weights) override {
    memory dequantised(plain_, engine_);
    auto* values = static_cast<Bf16*>(dequantised.get_data_handle());
    for (std::int64_t row = 0; row < problem_.n; ++row) {
      dequantize_row(weights, row, std::span(values + row * problem_.k, static_cast<std::size_t>(problem_.k)));
    }
    *static_cast<float*>(scale_.get_data_handle()) = weights.alpha;
    if (prepacked_ && description_.weights_desc() != plain_) {
      memory packed(description_.weights_desc(), engine_);
      dnnl::reorder(dequantised, packed).execute(stream_, dequantised, packed);
      stream_.wait();
      dequantised = packed;
    }
    weights_.push_back(dequantised);
    return {};
  }

  Result<void> run(std::size_t weights, void* out) override {
    omp_set_num_threads(threads_);
    try {
      matmul_.execute(stream_, {{DNNL_ARG_SRC, source_},
                                {DNNL_ARG_WEIGHTS, weights_[weights]},
                                {DNNL_ARG_DST, memory(out_, engine_, out)},
                                {DNNL_ARG_ATTR_OUTPUT_SCALES, scale_}});
      stream_.wait();
    } catch (const dnnl::error& error) {
      return Error{ErrorCode::kUnsupported, error.what(), name()};
    }
    return {};
  }

 private:
  GemmProblem problem_;
  int threads_;
  bool prepacked_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  memory::desc plain_;
  memory::desc out_;
  dnnl::matmul::primitive_desc description_;
  dnnl::matmul matmul_;
  memory source_;
  memory scale_;
  std::vector<memory> weights_;
};

}  // namespace

void add_onednn(const PeerProblem& problem, PeerList& list) {
  for (const bool prepacked : {true, false}) {
    try {
      list.peers.push_back(std::make_unique<OneDnn>(problem, prepacked));
    } catch (const dnnl::error& error) {
      list.absent.push_back(fmt::format("oneDNN bf16 {}: {}", prepacked ? "prepacked" : "plain", error.what()));
    }
  }
}

}  // namespace pinch::peers
