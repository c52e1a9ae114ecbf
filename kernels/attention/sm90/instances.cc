#include "kernels/attention/sm90/instances.h"

namespace pinch::attention::sm90 {

namespace {

template <Kind kKind, Tile kTile>
constexpr Instance instance_of() {
  return {kKind, kTile, &launch_attention<kKind, kTile>};
}

// The list with what PINCH_TACTICS leaves out removed, written at configure time.
constexpr Instance kInstances[] = {
#define PINCH_ATTENTION_TILE(set, dim, qk, pv, ...) instance_of<Kind{dim, QkType::qk, PvType::pv}, Tile{__VA_ARGS__}>(),
#include "kernels/attention/sm90/built_tiles.inc"
#undef PINCH_ATTENTION_TILE
};

}  // namespace

std::span<const Instance> instances() {
  return kInstances;
}

}  // namespace pinch::attention::sm90
