// How the output tiles of one problem are dealt to workers (a worker is a cluster of CTAs), on host and device.
//
// Tiles [0, shared_tiles) are cut along k: either every tile into `split` equal parts (one worker a part), or, for
// stream-k (split = 0), the whole run of k iterations into `workers` equal ranges. The other tiles are dealt whole, one
// round after another. A worker walks its range backwards: the part whose tile another worker finishes comes first, and
// the tile it finishes itself comes last, so that it waits only for workers of lower index, and only for their first
// part.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define PINCH_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define PINCH_HOST_DEVICE inline
#endif

namespace pinch::gemm_bf16_fp4::sm90 {

struct Schedule {
  int m_tiles;
  int n_tiles;  // in cluster tiles
  int k_iterations;
  int raster_m;
  int shared_tiles;
  int split;    // parts a shared tile; 0: stream-k
  int workers;  // clusters in the grid

  PINCH_HOST_DEVICE int tiles() const { return m_tiles * n_tiles; }

  // First k iteration (counted over all shared tiles) of a worker's range; range_begin(workers) ends the last.
  PINCH_HOST_DEVICE int range_begin(int worker) const {
    if (split == 0) return static_cast<int>(static_cast<int64_t>(worker) * shared_tiles * k_iterations / workers);
    const int tile = worker / split;
    if (tile >= shared_tiles) return shared_tiles * k_iterations;
    return tile * k_iterations + (worker - tile * split) * k_iterations / split;
  }
};

struct TilePosition {
  int m_tile;
  int n_tile;
};

// Groups of raster_m m tiles; inside a group m advances first, so the group's activations stay in L2.
PINCH_HOST_DEVICE TilePosition position_of(const Schedule& schedule, int tile) {
  const int group_tiles = schedule.raster_m * schedule.n_tiles;
  const int group = tile / group_tiles;
  const int first_m = group * schedule.raster_m;
  const int left = schedule.m_tiles - first_m;
  const int height = left < schedule.raster_m ? left : schedule.raster_m;
  const int inside = tile - group * group_tiles;
  return {first_m + inside % height, inside / height};
}

// One run of k iterations on one tile.
struct Segment {
  int tile;
  int k_begin;
  int k_end;
};

class SegmentWalker {
 public:
  PINCH_HOST_DEVICE SegmentWalker(const Schedule& schedule, int worker)
      : schedule_(schedule),
        range_begin_(schedule.range_begin(worker)),
        range_end_(schedule.range_begin(worker + 1)),
        whole_tile_(schedule.shared_tiles + worker) {}

  PINCH_HOST_DEVICE bool next(Segment& segment) {
    if (range_end_ > range_begin_) {
      const int tile = (range_end_ - 1) / schedule_.k_iterations;
      const int tile_begin = tile * schedule_.k_iterations;
      const int begin = range_begin_ > tile_begin ? range_begin_ : tile_begin;
      segment = {tile, begin - tile_begin, range_end_ - tile_begin};
      range_end_ = begin;
      return true;
    }
    if (whole_tile_ < schedule_.tiles()) {
      segment = {whole_tile_, 0, schedule_.k_iterations};
      whole_tile_ += schedule_.workers;
      return true;
    }
    return false;
  }

 private:
  const Schedule& schedule_;
  int range_begin_;
  int range_end_;
  int whole_tile_;
};

}  // namespace pinch::gemm_bf16_fp4::sm90
