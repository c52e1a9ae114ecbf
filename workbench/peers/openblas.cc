// OpenBLAS sgemm: FP32 weights and activations.
#include <cblas-openblas.h>
#include <fmt/core.h>

#include "workbench/peers/make_peers.h"

namespace pinch::peers {
namespace {

class OpenBlas final : public Peer {
 public:
  explicit OpenBlas(const PeerProblem& problem) : problem_(problem.problem), threads_(problem.threads) {
    a_.reserve(static_cast<std::size_t>(problem_.m * problem_.k));
    for (std::int64_t i = 0; i < problem_.m * problem_.k; ++i) a_.push_back(to_f32(problem.a[i]));
  }

  [[nodiscard]] std::string name() const override { return "OpenBLAS sgemm"; }
  [[nodiscard]] std::string numerics() const override {
    return fmt::format("FP32 throughout ({})", openblas_get_corename());
  }
  [[nodiscard]] OutputType output() const override { return OutputType::kF32; }
  [[nodiscard]] std::size_t weight_bytes() const override {
    return static_cast<std::size_t>(problem_.n * problem_.k) * sizeof(float);
  }

  Result<void> add_weights(const Fp4View& weights) override {
    Fp4View unscaled = weights;
    unscaled.alpha = 1;  // sgemm multiplies by alpha itself, which keeps the weights exact
    alpha_ = weights.alpha;
    std::vector<float> dequantised(static_cast<std::size_t>(problem_.n * problem_.k));
    for (std::int64_t row = 0; row < problem_.n; ++row) {
      dequantize_row(unscaled, row,
                     std::span(dequantised)
                         .subspan(static_cast<std::size_t>(row * problem_.k), static_cast<std::size_t>(problem_.k)));
    }
    weights_.push_back(std::move(dequantised));
    return {};
  }

  Result<void> run(std::size_t weights, void* out) override {
    openblas_set_num_threads(threads_);
    const auto m = static_cast<blasint>(problem_.m), n = static_cast<blasint>(problem_.n),
               k = static_cast<blasint>(problem_.k);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, alpha_, a_.data(), k, weights_[weights].data(), k, 0,
                static_cast<float*>(out), n);
    return {};
  }

 private:
  GemmProblem problem_;
  int threads_;
  float alpha_ = 1;
  std::vector<float> a_;
  std::vector<std::vector<float>> weights_;
};

}  // namespace

void add_openblas(const PeerProblem& problem, PeerList& list) {
  constexpr std::int64_t kLargest = 0x7fffffff;  // its sizes are 32 bits wide
  if (problem.problem.m > kLargest) {
    list.absent.emplace_back("OpenBLAS sgemm: m does not fit its 32-bit sizes");
    return;
  }
  list.peers.push_back(std::make_unique<OpenBlas>(problem));
}

}  // namespace pinch::peers
