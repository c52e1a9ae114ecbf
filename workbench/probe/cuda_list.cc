#include <fmt/core.h>

#include <initializer_list>
#include <set>

#include "workbench/probe/cuda_probe.h"

namespace pinch::probe {
namespace {

// Two packs a chain link, since one of two floats fills half of the register that it came from.
std::string packs(const char* type) {
  return fmt::format(
      "mov.b32 {{x}}, {{c}}; cvt.{0}x2.f32 {{k}}, {{x}}, {{f}}; cvt.{0}x2.f32 {{l}}, {{x}}, {{h}}; "
      "mov.b32 {{c}}, {{{{k}}, {{l}}}};",
      type);
}

std::string unpacks(const char* type, const char* to = "f16x2") {
  return fmt::format("mov.b32 {{{{k}}, {{l}}}}, {{c}}; cvt.rn.{}.{}x2 {{c}}, {{k}};", to, type);
}

// Matrices of 8 by 8 half-words, a row an address. The first register of a load is the next address.
void add_matrix_moves(std::vector<CudaProbe>& probes) {
  for (const bool transposed : {false, true}) {
    for (const int count : {1, 2, 4}) {
      const char* trans = transposed ? ".trans" : "";
      const char* registers[] = {"{c}", "{c}, {i}", "", "{c}, {i}, {j}, {o}"};
      const char* values[] = {"{{r}}", "{{r}, {s}}", "", "{a}"};
      const std::string modifiers =
          fmt::format(".16.{}{}", transposed ? "MT88" : "M88", count == 1 ? "" : fmt::format(".{}", count));
      probes.push_back({.name = fmt::format("ldmatrix.x{}{}", count, trans),
                        .opcode = "LDSM" + modifiers,
                        .chain = Chain::kShared,
                        .ptx = fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {{{}}}, [{{c}}];", count, trans,
                                           registers[count - 1]),
                        .most_chains = 8,
                        .words = transposed ? Words::kTransposed : Words::kMatrix});
      probes.push_back({.name = fmt::format("stmatrix.x{}{}", count, trans),
                        .opcode = "STSM" + modifiers,
                        .chain = Chain::kShared,
                        .ptx = fmt::format("stmatrix.sync.aligned.m8n8.x{}{}.shared.b16 [{{c}}], {};", count, trans,
                                           values[count - 1]),
                        .min_sm = 90,
                        .words = Words::k16Bytes});
    }
  }
}

// Products of a warpgroup, waited for once an iteration; A from shared memory or from registers.
void add_warpgroup_products(std::vector<CudaProbe>& probes) {
  for (const bool bytes : {false, true}) {
    for (const bool registers : {false, true}) {
      for (const int n : {8, 16, 32, 64, 128, 256}) {
        const int k = bytes ? 32 : 16;
        const char *type = bytes ? "e4m3" : "bf16", *a = registers ? "{a}" : "{u}";
        // Scales of the product and of the operands; and for half-words whether they are transposed in shared memory.
        const char* tail = bytes ? "1, 1, 1" : registers ? "1, 1, 1, 0" : "1, 1, 1, 0, 0";
        probes.push_back(
            {.name = fmt::format("wgmma.{}.n{}{}", type, n, registers ? ".registers" : ""),
             .opcode = fmt::format("{}.64x{}x{}.F32.{}", bytes ? "QGMMA" : "HGMMA", n, k, bytes ? "E4M3.E4M3" : "BF16"),
             .chain = Chain::kWarpgroup,
             .ptx = fmt::format("wgmma.mma_async.sync.aligned.m64n{0}k{1}.f32.{2}.{2} {{m}}, {3}, {{v}}, {4};", n, k,
                                type, a, tail),
             .min_sm = 90,
             .max_sm = 99,
             .most_chains = 1,
             .columns = n});
      }
    }
  }
}

// Copies by the bulk engine, issued by one thread; as many in flight as there are chains.
void add_bulk_copies(std::vector<CudaProbe>& probes) {
  for (const int bytes : {256, 2048, 8192}) {
    probes.push_back(
        {.name = fmt::format("bulk.load.{}", bytes),
         .opcode = "UBLKCP.S.G",
         .chain = Chain::kBulk,
         .ptx = fmt::format(
             "AGAIN: mbarrier.try_wait.parity.shared.b64 {{t}}, [{{j}}], {{c}}; @!{{t}} bra AGAIN; xor.b32 {{c}}, "
             "{{c}}, "
             "1; mbarrier.arrive.expect_tx.shared.b64 _, [{{j}}], {0}; "
             "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{{i}}], [{{y}}], {0}, [{{j}}];",
             bytes),
         .min_sm = 90,
         .most_chains = kBulkBytes / bytes < 16 ? kBulkBytes / bytes : 16,
         .bytes = bytes});
  }
  probes.push_back({.name = "bulk.store.2048",
                    .opcode = "UBLKCP.G.S",
                    .chain = Chain::kBulk,
                    .ptx = "cp.async.bulk.global.shared::cta.bulk_group [{y}], [{i}], 2048; "
                           "cp.async.bulk.commit_group; cp.async.bulk.wait_group {n};",
                    .min_sm = 90,
                    .bytes = 2048});
}

std::vector<CudaProbe> all_probes() {
  using enum Chain;
  std::vector<CudaProbe> probes = {
      // Special functions.
      {.name = "ex2.f32", .opcode = "MUFU.EX2", .chain = kFloat, .ptx = "ex2.approx.ftz.f32 {c}, {c};"},
      {.name = "ex2.f16x2", .opcode = "MUFU.EX2.F16", .ptx = "ex2.approx.f16x2 {c}, {c};", .per_op = 2, .max_sm = 102},
      {.name = "ex2.f16x2", .opcode = "MUFU.EX2.F16x2", .ptx = "ex2.approx.f16x2 {c}, {c};", .min_sm = 103},
      {.name = "ex2.bf16x2",
       .opcode = "MUFU.EX2.BF16",
       .ptx = "ex2.approx.ftz.bf16x2 {c}, {c};",
       .per_op = 2,
       .min_sm = 90,
       .max_sm = 102},
      {.name = "ex2.bf16x2", .opcode = "MUFU.EX2.BF16x2", .ptx = "ex2.approx.ftz.bf16x2 {c}, {c};", .min_sm = 103},
      {.name = "lg2.f32", .opcode = "MUFU.LG2", .chain = kFloat, .ptx = "lg2.approx.ftz.f32 {c}, {c};"},
      {.name = "rcp.f32",
       .opcode = "MUFU.RCP",
       .chain = kFloat,
       .ptx = "rcp.approx.ftz.f32 {c}, {c}; add.ftz.f32 {c}, {c}, {f};"},
      {.name = "rsqrt.f32", .opcode = "MUFU.RSQ", .chain = kFloat, .ptx = "rsqrt.approx.ftz.f32 {c}, {c};"},
      {.name = "tanh.f32", .opcode = "MUFU.TANH", .chain = kFloat, .ptx = "tanh.approx.f32 {c}, {c};"},
      {.name = "sin.f32", .opcode = "MUFU.SIN", .chain = kFloat, .ptx = "sin.approx.ftz.f32 {c}, {c};"},
      // Conversions: packs of two floats, and unpacks.
      {.name = "cvt.bf16x2",
       .opcode = "F2FP.BF16.PACK_AB",
       .ptx = "mov.b32 {x}, {c}; cvt.rn.bf16x2.f32 {c}, {x}, {f};",
       .max_sm = 89},
      {.name = "cvt.bf16x2",
       .opcode = "F2FP.BF16.F32.PACK_AB",
       .ptx = "mov.b32 {x}, {c}; cvt.rn.bf16x2.f32 {c}, {x}, {f};",
       .min_sm = 90},
      {.name = "cvt.f16x2",
       .opcode = "F2FP.PACK_AB",
       .ptx = "mov.b32 {x}, {c}; cvt.rn.f16x2.f32 {c}, {x}, {f};",
       .max_sm = 89},
      {.name = "cvt.f16x2",
       .opcode = "F2FP.F16.F32.PACK_AB",
       .ptx = "mov.b32 {x}, {c}; cvt.rn.f16x2.f32 {c}, {x}, {f};",
       .min_sm = 90},
      {.name = "cvt.e4m3x2",
       .opcode = "F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C",
       .ptx = packs("rn.satfinite.e4m3"),
       .per_op = 2,
       .chained = 2,
       .min_sm = 89},
      {.name = "cvt.e5m2x2",
       .opcode = "F2FP.SATFINITE.E5M2.F32.PACK_AB_MERGE_C",
       .ptx = packs("rn.satfinite.e5m2"),
       .per_op = 2,
       .chained = 2,
       .min_sm = 89},
      {.name = "cvt.e3m2x2",
       .opcode = "F2FP.SATFINITE.E3M2.F32.PACK_AB_MERGE_C",
       .ptx = packs("rn.satfinite.e3m2"),
       .per_op = 2,
       .chained = 2,
       .min_sm = 100},
      {.name = "cvt.e2m3x2",
       .opcode = "F2FP.SATFINITE.E2M3.F32.PACK_AB_MERGE_C",
       .ptx = packs("rn.satfinite.e2m3"),
       .per_op = 2,
       .chained = 2,
       .min_sm = 100},
      {.name = "cvt.e2m1x2",
       .opcode = "F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C",
       .ptx = "mov.b32 {x}, {c}; cvt.rn.satfinite.e2m1x2.f32 {b}, {x}, {f}; cvt.u32.u8 {c}, {b};",
       .min_sm = 100},
      {.name = "cvt.ue8m0x2",
       .opcode = "F2FP.SATFINITE.E8.F32.PACK_AB_MERGE_C.RP",
       .ptx = packs("rp.satfinite.ue8m0"),
       .per_op = 2,
       .chained = 2,
       .min_sm = 100},
      {.name = "unpack.e4m3x2", .opcode = "F2FP.F16.E4M3.UNPACK_B", .ptx = unpacks("e4m3"), .min_sm = 89},
      {.name = "unpack.e5m2x2", .opcode = "F2FP.F16.E5M2.UNPACK_B", .ptx = unpacks("e5m2"), .min_sm = 89},
      {.name = "unpack.e3m2x2", .opcode = "F2FP.F16.E3M2.UNPACK_B", .ptx = unpacks("e3m2"), .min_sm = 100},
      {.name = "unpack.e2m3x2", .opcode = "F2FP.F16.E2M3.UNPACK_B", .ptx = unpacks("e2m3"), .min_sm = 100},
      {.name = "unpack.e2m1x2",
       .opcode = "F2FP.F16.E2M1.UNPACK_B",
       .ptx = "cvt.u8.u32 {b}, {c}; cvt.rn.f16x2.e2m1x2 {c}, {b};",
       .min_sm = 100},
      {.name = "unpack.ue8m0x2", .opcode = "F2FP.BF16.E8.UNPACK_B", .ptx = unpacks("ue8m0", "bf16x2"), .min_sm = 100},
      // Arithmetic.
      {.name = "ffma", .opcode = "FFMA", .chain = kFloat, .ptx = "fma.rn.f32 {c}, {c}, {f}, {h};"},
      {.name = "ffma2", .opcode = "FFMA2", .chain = kDouble, .ptx = "fma.rn.f32x2 {c}, {c}, {p}, {q};", .min_sm = 100},
      {.name = "fmul", .opcode = "FMUL", .chain = kFloat, .ptx = "mul.rn.f32 {c}, {c}, {f};"},
      {.name = "fadd", .opcode = "FADD", .chain = kFloat, .ptx = "add.rn.f32 {c}, {c}, {f};"},
      {.name = "fmax",
       .opcode = "FMNMX",
       .chain = kFloat,
       .ptx = "max.f32 {c}, {c}, {f}; min.f32 {c}, {c}, {h};",
       .per_op = 2,
       .chained = 2},
      {.name = "fmax3", .opcode = "FMNMX3", .chain = kFloat, .ptx = "max.f32 {c}, {c}, {f}, {h};", .min_sm = 100},
      {.name = "hfma2", .opcode = "HFMA2", .also = "HFMA2.MMA", .ptx = "fma.rn.f16x2 {c}, {c}, {r}, {s};"},
      {.name = "hfma2.bf16",
       .opcode = "HFMA2.BF16_V2",
       .also = "HFMA2.MMA.BF16_V2",
       .ptx = "fma.rn.bf16x2 {c}, {c}, {r}, {s};"},
      {.name = "dfma", .opcode = "DFMA", .chain = kDouble, .ptx = "fma.rn.f64 {c}, {c}, {p}, {q};"},
      {.name = "imad", .opcode = "IMAD", .ptx = "mad.lo.u32 {c}, {c}, {r}, {s};"},
      {.name = "imad.wide",
       .opcode = "IMAD.WIDE.U32",
       .chain = kDouble,
       .ptx = "mov.b64 {{i}, {j}}, {c}; mul.wide.u32 {c}, {i}, {j};"},
      {.name = "iadd3", .opcode = "IADD3", .ptx = "add.u32 {c}, {c}, {r}; sub.u32 {c}, {s}, {c};"},
      {.name = "lop3", .opcode = "LOP3.LUT", .ptx = "lop3.b32 {c}, {c}, {r}, {s}, 0x6a;"},
      {.name = "prmt", .opcode = "PRMT", .ptx = "prmt.b32 {c}, {c}, {r}, {s};"},
      {.name = "shf", .opcode = "SHF.L.W.U32.HI", .ptx = "shf.l.wrap.b32 {c}, {c}, {r}, {s};"},
      {.name = "popc", .opcode = "POPC", .ptx = "popc.b32 {c}, {c};"},
      // Across the warp.
      {.name = "shfl", .opcode = "SHFL.BFLY", .ptx = "shfl.sync.bfly.b32 {c}, {c}, 1, 0x1f, 0xffffffff;"},
      {.name = "redux", .opcode = "REDUX.MAX", .ptx = "redux.sync.max.u32 {c}, {c}, 0xffffffff;", .max_sm = 99},
      {.name = "redux", .opcode = "CREDUX.MAX", .ptx = "redux.sync.max.u32 {c}, {c}, 0xffffffff;", .min_sm = 100},
      {.name = "vote",
       .opcode = "VOTE.ANY",
       .ptx = "setp.ge.u32 {t}, {c}, {r}; vote.sync.ballot.b32 {c}, {t}, 0xffffffff;"},
      // Memory. Addresses hold themselves, so that a chain goes on for ever.
      {.name = "lds.32",
       .opcode = "LDS",
       .chain = kShared,
       .ptx = "ld.volatile.shared.u32 {c}, [{c}];",
       .words = Words::k4Bytes},
      {.name = "lds.64",
       .opcode = "LDS.64",
       .chain = kShared,
       .ptx = "ld.volatile.shared.v2.u32 {{c}, {i}}, [{c}];",
       .words = Words::k8Bytes},
      {.name = "lds.128",
       .opcode = "LDS.128",
       .chain = kShared,
       .ptx = "ld.volatile.shared.v4.u32 {{c}, {i}, {j}, {o}}, [{c}];",
       .most_chains = 8,
       .words = Words::k16Bytes},
      {.name = "sts.32",
       .opcode = "STS",
       .chain = kShared,
       .ptx = "st.volatile.shared.u32 [{c}], {c};",
       .words = Words::k4Bytes},
      {.name = "sts.64",
       .opcode = "STS.64",
       .chain = kShared,
       .ptx = "st.volatile.shared.v2.u32 [{c}], {{r}, {s}};",
       .words = Words::k8Bytes},
      {.name = "sts.128",
       .opcode = "STS.128",
       .chain = kShared,
       .ptx = "st.volatile.shared.v4.u32 [{c}], {a};",
       .words = Words::k16Bytes},
      {.name = "ldg.l1", .opcode = "LDG.E.64.STRONG.SM", .chain = kGlobal, .ptx = "ld.global.ca.u64 {c}, [{c}];"},
      {.name = "ldg.l2", .opcode = "LDG.E.64.STRONG.GPU", .chain = kGlobal, .ptx = "ld.global.cg.u64 {c}, [{c}];"},
      {.name = "stg", .opcode = "STG.E.64.STRONG.SYS", .chain = kGlobal, .ptx = "st.volatile.global.u64 [{c}], {c};"},
      // Matrix products of a warp. Those of bytes take A from the last sum, so that whatever makes half-words of it
      // stays in the loop.
      {.name = "mma.bf16",
       .opcode = "HMMA.16816.F32.BF16",
       .chain = kProduct,
       .ptx = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {m}, {a}, {{r}, {s}}, {m};",
       .most_chains = 8},
      {.name = "mma.e4m3",
       .opcode = "HMMA.16816.F32",
       .beside = "F2FP.F16.E4M3.UNPACK_B",
       .beside_per_op = 6,
       .beside_per_loop = 4,
       .chain = kProduct,
       .ptx = "mov.b32 {i}, {m0}; mov.b32 {j}, {m1}; mov.b32 {o}, {m2}; "
              "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {m}, {{i}, {j}, {o}, {i}}, {{r}, {s}}, {m};",
       .per_op = 2,
       .min_sm = 90,
       .most_chains = 4},
      {.name = "mma.e5m2",
       .opcode = "HMMA.16816.F32",
       .beside = "F2FP.F16.E5M2.UNPACK_B",
       .beside_per_op = 6,
       .beside_per_loop = 4,
       .chain = kProduct,
       .ptx = "mov.b32 {i}, {m0}; mov.b32 {j}, {m1}; mov.b32 {o}, {m2}; "
              "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {m}, {{i}, {j}, {o}, {i}}, {{r}, {s}}, {m};",
       .per_op = 2,
       .min_sm = 90,
       .most_chains = 4},
      // Round trips of a block's barriers.
      {.name = "barrier.block",
       .opcode = "BAR.SYNC.DEFER_BLOCKING",
       .chain = kBarrier,
       .ptx = "bar.sync 0;",
       .most_chains = 1},
      {.name = "barrier.named",
       .opcode = "BAR.SYNC.DEFER_BLOCKING",
       .chain = kBarrier,
       .ptx = "bar.sync 1, 128;",
       .most_chains = 1},
      {.name = "mbarrier.round_trip",
       .opcode = "SYNCS.PHASECHK.TRANS64.TRYWAIT",
       .also = "SYNCS.ARRIVE.TRANS64.A1T0",
       .chain = kBarrier,
       .ptx = "mbarrier.arrive.shared.b64 %state, [waited]; AGAIN: mbarrier.try_wait.shared.b64 {t}, [waited], %state; "
              "@!{t} bra AGAIN;",
       .per_op = 2,
       .min_sm = 90,
       .most_chains = 1}};
  // sm_80 has no try_wait: the wait is a test in a loop.
  probes.push_back(
      {.name = "mbarrier.round_trip",
       .opcode = "ATOMS.ARRIVE.64",
       .also = "LDS",
       .chain = kBarrier,
       .ptx =
           "mbarrier.arrive.shared.b64 %state, [waited]; AGAIN: mbarrier.test_wait.shared.b64 {t}, [waited], %state; "
           "@!{t} bra AGAIN;",
       .per_op = 2,
       .max_sm = 89,
       .most_chains = 1});
  add_matrix_moves(probes);
  add_warpgroup_products(probes);
  add_bulk_copies(probes);
  return probes;
}

}  // namespace

const std::vector<CudaProbe>& cuda_probes() {
  static const std::vector<CudaProbe> probes = all_probes();
  return probes;
}

const std::vector<std::pair<std::string, std::string>>& cuda_pairs() {
  static const std::vector<std::pair<std::string, std::string>> pairs = [] {
    std::vector<std::pair<std::string, std::string>> made;
    std::set<std::string> seen;  // of each conversion, whatever its architecture
    for (const CudaProbe& probe : cuda_probes()) {
      if ((probe.name.starts_with("cvt.") || probe.name.starts_with("unpack.")) && seen.insert(probe.name).second)
        made.emplace_back("ex2.f32", probe.name);
    }
    for (const auto& [a, b] : std::initializer_list<std::pair<const char*, const char*>>{
             {"ex2.f32", "ffma"},    {"ex2.f32", "fmax"},     {"ex2.f32", "lg2.f32"},
             {"ex2.f32", "popc"},    {"ex2.f32", "mma.bf16"}, {"cvt.bf16x2", "cvt.e4m3x2"},
             {"cvt.bf16x2", "lop3"}, {"cvt.bf16x2", "ffma"},  {"cvt.e4m3x2", "lop3"},
             {"lop3", "prmt"},       {"lop3", "ffma"},        {"lop3", "fmax"},
             {"lop3", "shf"},        {"lop3", "iadd3"},       {"ffma", "imad"},
             {"ffma", "hfma2"},      {"imad", "lop3"},        {"imad", "hfma2"},
             {"hfma2", "lop3"},      {"shfl", "ffma"},        {"shfl", "lds.32"},
             {"shfl", "ex2.f32"},    {"mma.bf16", "ffma"},    {"mma.bf16", "lop3"},
             {"ffma2", "ffma"},      {"ffma2", "ex2.f32"}})
      made.emplace_back(a, b);
    return made;
  }();
  return pairs;
}

const std::vector<std::string>& cuda_archs() {
  static const std::vector<std::string> archs = {"sm_80", "sm_90a", "sm_100a", "sm_103a"};
  return archs;
}

}  // namespace pinch::probe
