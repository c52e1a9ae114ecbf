// Other libraries' matrix products, beside which ours is benchmarked. They work on weights dequantised beforehand,
// which is what a program without an FP4 kernel would do.
//
// Peers live in a module of their own that `pinch bench` opens at run time: neither the program's start nor its
// dependencies grow by libraries that only a comparison needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pinch/formats.h"
#include "pinch/fp4.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"

namespace pinch::peers {

struct PeerProblem {
  GemmProblem problem;
  const Bf16* a = nullptr;  ///< [m, k], outlives the peer
  int threads = 1;
};

class Peer {
 public:
  virtual ~Peer() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::string numerics() const = 0;
  [[nodiscard]] virtual OutputType output() const = 0;         ///< of run(), [m, n], rows n apart
  [[nodiscard]] virtual std::size_t weight_bytes() const = 0;  ///< that one call reads
  /// Dequantises, and packs where the peer packs; run() names weights by the order of adding.
  virtual Result<void> add_weights(const Fp4View& weights) = 0;
  virtual Result<void> run(std::size_t weights, void* out) = 0;
};

struct PeerList {
  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<std::string> absent;  ///< "name: why", of peers that cannot run
};

/// The entry of the module: adds every peer it was built with, for one problem.
using MakePeers = void (*)(const PeerProblem&, PeerList&);
inline constexpr const char* kMakePeersSymbol = "pinch_make_peers";
inline constexpr const char* kPeerModule = "pinch_peers.so";

}  // namespace pinch::peers
