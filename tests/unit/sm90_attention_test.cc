// The sm90_attention family without a GPU: names, what is refused and why, the handoff's contract over every split, the
// model, and what the front door says where there is no device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string>

#include "kernels/attention/arguments.h"
#include "kernels/attention/sm90/family.h"
#include "kernels/attention/sm90/model.h"
#include "pinch/attention_cuda.h"
#include "pinch/families.h"

namespace pinch::attention::sm90 {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr Resources kH200{.sm_count = 132};
constexpr DeviceFacts kFacts{132, std::size_t{60} << 20};

AttentionProblem problem(std::int64_t seq, bool causal = false, std::int64_t dim = 128) {
  return {4, 16, 16, seq, seq, dim, causal, PvType::kBf16, QkType::kBf16, OutputType::kBf16};
}

TEST(Sm90Attention, NamesAreDistinctAndParse) {
  const auto family = find_any_tactic_family("sm90_attention");
  ASSERT_TRUE(family.ok());
  const AttentionTacticFamily& tactics_of = *std::get<const AttentionTacticFamily*>(*family);
  ASSERT_GT(tactics_of.size(), 0U);
  for (std::size_t i = 0; i < tactics_of.size(); ++i) {
    const auto parsed = parse_tactic(tactics_of, tactics_of.to_string(i));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, i) << "a name twice: " << tactics_of.to_string(i);
  }
  const auto unknown = parse_tactic(tactics_of, "q128/kv129/stages2");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().text, HasSubstr("q128/kv128/stages2"));
}

TEST(Sm90Attention, EveryListedTileIsLegalAndNeverReadsAhead) {
  for (const ListedTile& row : listed_tiles()) {
    EXPECT_EQ(illegal(row.kind, row.tile), "") << to_string({row.tile});
    EXPECT_EQ(row.tile.read_ahead, 0) << "a demonstration of a fault is no tactic";
  }
}

TEST(Sm90Attention, EveryKindHasACoreKernel) {
  for (const ListedTile& row : listed_tiles()) {
    const auto same = [&](const ListedTile& other) { return other.kind == row.kind && other.core; };
    EXPECT_TRUE(std::any_of(listed_tiles().begin(), listed_tiles().end(), same)) << to_string({row.tile});
  }
}

// Compiled and no tactics: splits of longer key tiles, and what reads further than it may.
constexpr ListedTile kUnlisted[] = {
#define PINCH_ATTENTION_TILE(set, dim, qk, pv, ...) {false, Kind{dim, QkType::qk, PvType::pv}, Tile{__VA_ARGS__}},
#include "kernels/attention/sm90/unlisted.inc"
#undef PINCH_ATTENTION_TILE
};

/// How many splits, that read different parts of P, are legal with a listed kernel's kind and key tile. Every one of
/// them is compiled.
int legal_splits(int tile_kv) {
  int found = 0;
  for (const ListedTile& whole : listed_tiles()) {
    if (whole.tile != Tile{.tile_kv = tile_kv}) continue;
    const int steps = tile_kv / step_keys(whole.kind.pv);
    for (int read = 1; read < steps; ++read) {
      const Tile tile{.tile_kv = tile_kv, .split_numerator = read, .split_denominator = steps, .chunks = steps};
      if (!illegal(whole.kind, tile).empty()) continue;
      const auto same = [&](const ListedTile& row) {
        return row.kind == whole.kind && row.tile.tile_kv == tile_kv && row.tile.read_ahead == 0 &&
               handoff(row.tile, row.kind.pv).read == read;
      };
      EXPECT_TRUE(std::any_of(listed_tiles().begin(), listed_tiles().end(), same) ||
                  std::any_of(std::begin(kUnlisted), std::end(kUnlisted), same))
          << whole.kind.dim << " " << to_string(whole.kind.qk) << " " << to_string(whole.kind.pv) << " " << read << "/"
          << steps;
      ++found;
    }
  }
  return found;
}

// The device tests run every compiled kernel.
TEST(Sm90Attention, EveryLegalSplitOfAListedKeyTileIsCompiled) {
  EXPECT_EQ(legal_splits(128), 2 * 7 + 2 * 3) << "bf16 at both dims, fp8 at dim 64";
  EXPECT_EQ(legal_splits(144), 6);
  EXPECT_EQ(legal_splits(160), 5);
  EXPECT_EQ(legal_splits(176), 3 + 7) << "at both dims";
  for (const ListedTile& row : listed_tiles())
    EXPECT_TRUE(std::set({128, 144, 160, 176}).contains(row.tile.tile_kv)) << row.tile.tile_kv;
}

TEST(Sm90Attention, UnlistedKernelsAreLegalOrReadFurtherAndNoTactics) {
  for (const ListedTile& row : kUnlisted) {
    const std::string_view why = illegal(row.kind, row.tile);
    EXPECT_EQ(why.starts_with("handoff"), row.tile.read_ahead > 0) << to_string({row.tile}) << why;
    EXPECT_EQ(why.empty(), row.tile.read_ahead == 0) << to_string({row.tile}) << why;
    EXPECT_NE(illegal_listed({row.tile}, problem(4096, false, row.kind.dim), kFacts), "") << to_string({row.tile});
  }
}

TEST(Sm90Attention, RefusalsAreNamed) {
  const Kind bf16{128, QkType::kBf16, PvType::kBf16}, fp8{128, QkType::kBf16, PvType::kFp8};
  const auto why = [](Kind kind, auto change) {
    Tile tile;
    change(kind, tile);
    return std::string(illegal(kind, tile));
  };
  using K = Kind&;
  using T = Tile&;
  EXPECT_EQ(why(bf16, [](K, T) {}), "");
  EXPECT_THAT(why(bf16, [](K k, T) { k.dim = 96; }), StartsWith("dim "));
  EXPECT_THAT(why(bf16, [](K k, T) { k.qk = QkType::kFp8; }), StartsWith("qk: "));
  EXPECT_THAT(why(bf16, [](K, T t) { t.tile_q = 64; }), StartsWith("tile_q "));
  EXPECT_THAT(why(bf16, [](K, T t) { t.tile_kv = 120; }), StartsWith("tile_kv "));
  EXPECT_THAT(why(fp8, [](K, T t) { t.tile_kv = 176; }), StartsWith("tile_kv "));
  EXPECT_THAT(why(bf16, [](K, T t) { t.tile_q = 192, t.tile_kv = 176; }), HasSubstr("registers"));
  EXPECT_THAT(why(bf16, [](K, T t) { t.stages = 1; }), StartsWith("stages "));
  EXPECT_THAT(why(bf16, [](K, T t) { t.stages = 4; }), HasSubstr("shared memory"));
  EXPECT_THAT(why(bf16, [](K, T t) { t.sixteenths = 4; }), StartsWith("sixteenths "));
  EXPECT_THAT(why(bf16, [](K, T t) { t.exp2 = Exp2::kMixed; }), StartsWith("sixteenths "));
  EXPECT_THAT(why(bf16, [](K, T t) { t.quant = Quant::kLog; }), StartsWith("quant: "));
  EXPECT_THAT(why(bf16, [](K, T t) { t.split_numerator = 2; }), StartsWith("split "));
  EXPECT_THAT(why(bf16, [](K, T t) { t.split_numerator = 0; }), StartsWith("split "));
  EXPECT_THAT(why(fp8, [](K, T t) { t.split_denominator = 2, t.chunks = 2; }), StartsWith("split must be 1 "));
  EXPECT_THAT(why(bf16, [](K, T t) { t.tile_kv = 176, t.split_denominator = t.chunks = 11; }),
              HasSubstr("no registers"));
  EXPECT_THAT(why(bf16, [](K, T t) { t.chunks = 3; }), StartsWith("chunks "));
  EXPECT_THAT(why(bf16, [](K, T t) { t.split_denominator = 2; }), StartsWith("handoff: "));
  EXPECT_THAT(why(bf16, [](K, T t) { t.split_denominator = 2, t.chunks = 2, t.read_ahead = 1; }),
              StartsWith("handoff: the product reads"));
  EXPECT_THAT(std::string(illegal(bf16, Tactic{{}, 65})), StartsWith("threshold "));
  EXPECT_THAT(std::string(illegal(fp8, Tactic{{}, 8})), StartsWith("threshold ")) << "8 + 8 overflows E4M3";
}

// The producer has written at least what the consumer's first part reads, for every split there is; and every split
// that is refused for the handoff does break that.
TEST(Sm90Attention, TheHandoffHoldsForEveryLegalSplit) {
  int legal = 0, refused = 0, smallest = 1000;
  // Dim 128 has no split with fp8, and of bf16 fewer: what spills is refused, by another name.
  for (const auto& [dim, pv] : {std::pair{64, PvType::kBf16}, std::pair{128, PvType::kBf16},
                                std::pair{64, PvType::kFp8}, std::pair{64, PvType::kFp4}}) {
    const Kind kind{dim, QkType::kBf16, pv};
    for (int tile_kv = 32; tile_kv <= 256; tile_kv += 16) {
      for (int chunks = 1; chunks <= 16; ++chunks) {
        for (int d = 1; d <= 16; ++d) {
          for (int n = 1; n <= d; ++n) {
            const Tile tile{.tile_kv = tile_kv, .split_numerator = n, .split_denominator = d, .chunks = chunks};
            const std::string_view why = illegal(kind, tile);
            if (!why.empty() && !why.starts_with("handoff")) continue;
            const Handoff h = handoff(tile, pv);
            ASSERT_EQ(h.steps * step_keys(pv), tile_kv);
            ASSERT_LE(h.written, h.steps);
            ASSERT_LE(h.read, h.steps);
            ASSERT_GE(h.read * d, h.steps * n) << "the first part is no less than the split";
            ASSERT_EQ(h.written % (h.steps / chunks), 0) << "whole chunks are released";
            const bool safe = h.written > 0 && h.read <= h.written;
            ASSERT_EQ(why.empty(), safe) << tile_kv << " " << n << "/" << d << " of " << chunks;
            (safe ? legal : refused) += 1;
            if (safe) smallest = std::min(smallest, h.read);
            Tile ahead = tile;  // the planted fault: one step more than was written
            ahead.read_ahead = h.written - h.read + 1;
            if (safe && h.written < h.steps) {
              ASSERT_THAT(std::string(illegal(kind, ahead)), StartsWith("handoff"));
            }
          }
        }
      }
    }
  }
  EXPECT_GT(legal, 1000);
  EXPECT_GT(refused, 1000);
  EXPECT_EQ(smallest, 1) << "the smallest split is one step";
}

TEST(Sm90Attention, TheDefaultIsTheFirstOfTheRanking) {
  const AttentionTacticFamily& family = sm90_attention_family();
  for (const bool causal : {false, true}) {
    for (const std::int64_t seq : {1, 77, 1024, 16384}) {
      const auto ranked = rank_tactics(family, problem(seq, causal), kH200);
      ASSERT_TRUE(ranked.ok()) << ranked.error().message();
      EXPECT_EQ(default_tactic(family, problem(seq, causal), kH200)->index, ranked->front().index);
      for (const RankedTactic& each : *ranked) {
        EXPECT_GT(each.estimate.cost, 0);
        EXPECT_EQ(each.estimate.unit, "ns");
      }
    }
  }
  EXPECT_EQ(default_tactic(family, problem(64), Resources{}).error().where, "sm_count");
  AttentionProblem invalid = problem(64);
  invalid.dim = 96;
  EXPECT_EQ(default_tactic(family, invalid, kH200).error().where, "dim");
}

TEST(Sm90AttentionModel, TimesMoveAsTheWorkDoes) {
  const Tile tile;
  const auto ns = [&](const AttentionProblem& p, const Tactic& tactic) {
    return cost(tactic, p, kFacts, h200_constants()).ns;
  };
  const Tactic plain{tile};
  EXPECT_GT(ns(problem(8192), plain), 3.5 * ns(problem(4096), plain));
  EXPECT_LT(ns(problem(8192), plain), 4.1 * ns(problem(4096), plain));
  EXPECT_LT(ns(problem(8192, true), plain), 0.6 * ns(problem(8192), plain));
  EXPECT_GT(ns(problem(8192, true), plain), 0.5 * ns(problem(8192), plain));
  EXPECT_LT(ns(problem(8192, false, 64), plain), ns(problem(8192), plain));
  AttentionProblem fp8 = problem(8192);
  fp8.pv = PvType::kFp8;
  AttentionProblem all_fp8 = fp8;
  all_fp8.qk = QkType::kFp8;
  EXPECT_LT(ns(fp8, plain), ns(problem(8192), plain));
  EXPECT_LT(ns(all_fp8, plain), ns(fp8, plain));
  AttentionProblem fp4 = problem(8192);
  fp4.pv = PvType::kFp4;
  Tactic log = plain;
  log.tile.quant = Quant::kLog;
  EXPECT_LT(ns(fp4, log), ns(fp4, plain));
  Tactic dealt = plain;
  dealt.schedule = Schedule::kStatic;
  EXPECT_GE(ns(problem(8192, true), dealt), ns(problem(8192, true), plain));
  EXPECT_EQ(ns(problem(8192), dealt), ns(problem(8192), plain)) << "all query tiles are alike";
  EXPECT_EQ(cost(plain, problem(8192), kFacts, h200_constants()).waves, (64 * 64 + 131) / 132);
}

TEST(Sm90AttentionModel, PromisesLessThanTheStatedRateAndMoreThanHalf) {
  // Stated for an H200: 989 TFLOP/s.
  const double tflops = attention_flops(problem(16384)) / cost({}, problem(16384), kFacts, h200_constants()).ns / 1e3;
  EXPECT_GT(tflops, 989 / 2);
  EXPECT_LT(tflops, 989);
}

TEST(Sm90AttentionModel, MissingConstantsAreNamed) {
  MachineModel model = h200_attention_machine_model();
  ASSERT_TRUE(ModelConstants::from(model).ok());
  for (std::size_t i = 0; i < ModelConstants::kSharedCount; ++i) {
    model = h200_attention_machine_model();
    const std::string name = constant_names()[i].name;
    std::erase_if(model.constants, [&](const MachineConstant& constant) { return constant.name == name; });
    const auto refused = ModelConstants::from(model);
    ASSERT_FALSE(refused.ok()) << name << " is not read";
    EXPECT_THAT(refused.error().message(), HasSubstr(name));
  }
  for (const MachineConstant& constant : h200_attention_machine_model().constants) {
    const auto same = [&](const ConstantName& known) { return known.name == constant.name; };
    EXPECT_TRUE(std::any_of(constant_names().begin(), constant_names().end(), same)) << constant.name << " is not read";
  }
}

TEST(Sm90AttentionFrontDoor, CallsAreRefusedByName) {
  alignas(16) static Bf16 memory[64];
  const AttentionProblem p{2, 4, 2, 20, 30, 64, false, PvType::kBf16, QkType::kBf16, OutputType::kBf16};
  const auto where = [&](auto change, bool variable = false) {
    AttentionInputs in{{memory, 4 * 20 * 64, 20 * 64, 64},
                       {memory, 2 * 30 * 64, 30 * 64, 64},
                       {memory, 2 * 30 * 64, 30 * 64, 64},
                       0.125F};
    AttentionOutputs out{{memory, 4 * 20 * 64, 20 * 64, 64}};
    static constexpr std::int32_t kNeverRead[] = {-1, -1, -1};
    if (variable) {
      in.cu_seqlens_q = in.cu_seqlens_kv = kNeverRead;
      in.total_q = 33, in.total_kv = 60;
      in.q.head_stride = out.o.head_stride = 33 * 64;
      in.k.head_stride = in.v.head_stride = 60 * 64;
    }
    change(in, out);
    const auto done = pinch::detail::check_device_call(p, in, out, 8, 16);
    return done.ok() ? std::string("ok") : done.error().where;
  };
  using In = AttentionInputs&;
  using Out = AttentionOutputs&;
  EXPECT_EQ(where([](In, Out) {}), "ok");
  EXPECT_EQ(where([](In, Out) {}, true), "ok");
  EXPECT_EQ(where([](In in, Out) { in.q.data = nullptr; }), "q");
  EXPECT_EQ(where([](In in, Out) { in.k.data = memory + 1; }), "k");
  EXPECT_EQ(where([](In in, Out) { in.v.row_stride = 68; }), "v");
  EXPECT_EQ(where([](In in, Out) { in.v.row_stride = 56; }), "v");
  EXPECT_EQ(where([](In in, Out) { in.q.batch_stride = 4 * 20 * 64 + 4; }), "q");
  EXPECT_EQ(where([](In in, Out) { in.k.batch_stride = 0x7fffffff; }), "k");
  EXPECT_EQ(where([](In, Out out) { out.o.data = memory + 4; }), "o");
  EXPECT_EQ(where([](In, Out out) { out.o.head_stride = 64; }), "o");
  EXPECT_EQ(where([](In in, Out) { in.scale = 0; }), "scale");
  EXPECT_EQ(where([](In in, Out) { in.scale = std::nanf(""); }), "scale");
  EXPECT_EQ(where([](In in, Out) { in.cu_seqlens_kv = {}; }, true), "cu_seqlens");
  EXPECT_EQ(where([](In in, Out) { in.cu_seqlens_q = in.cu_seqlens_q.first(2); }, true), "cu_seqlens_q");
  EXPECT_EQ(where([](In in, Out) { in.total_q = 41; }, true), "total_q");
  EXPECT_EQ(where([](In in, Out) { in.total_kv = -1; }, true), "total_kv");
  EXPECT_EQ(where([](In in, Out out) { in.total_q = 34, out.lse = nullptr; }, true), "o") << "34 rows in room for 33";
  static float lse[1];
  EXPECT_EQ(where([](In, Out out) { out.lse = lse, out.lse_batch_stride = 80, out.lse_head_stride = 19; }), "lse");
}

TEST(Sm90AttentionFrontDoor, BuiltTacticsAreTheFamilyLessWhatWasLeftOut) {
  const AttentionTacticFamily& whole = sm90_attention_family();
  const AttentionTacticFamily& built = cuda::built_attention_tactics();
  ASSERT_EQ(built.size(), whole.size());
  std::size_t legal = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(built.to_string(i), whole.to_string(i));
    const auto why = whole.illegal(i, problem(64), kH200), here = built.illegal(i, problem(64), kH200);
    legal += here ? 0U : 1U;
    if (why) {
      EXPECT_EQ(here, why);
    } else if (here) {
      EXPECT_THAT(*here, HasSubstr("PINCH_TACTICS"));
    }
  }
  EXPECT_EQ(legal == 0, !cuda::kernels_absent().empty());
}

TEST(Sm90AttentionFrontDoor, SaysWhyThereIsNoDevice) {
  if (cuda::gemm_device(0).ok()) GTEST_SKIP() << "device 0 runs the kernels";
  const auto plan = cuda::plan_attention(problem(64), 0);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(plan.error().where, "device");
  AttentionProblem invalid = problem(64);
  invalid.kv_heads = 3;
  EXPECT_EQ(cuda::plan_attention(invalid, 0).error().where, "kv_heads");
}

}  // namespace
}  // namespace pinch::attention::sm90
