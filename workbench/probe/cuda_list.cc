#include "workbench/probe/cuda_probe.h"

namespace pinch::probe {

const std::vector<CudaProbe>& cuda_probes() {
  static const std::vector<CudaProbe> probes = {
      // Special functions.
      {"ex2.f32", "MUFU.EX2", 'f', "ex2.approx.ftz.f32 {c}, {c};"},
      {"ex2.f16x2", "MUFU.EX2", 'r', "ex2.approx.f16x2 {c}, {c};", 2, 80, 102},
      {"ex2.f16x2", "MUFU.EX2", 'r', "ex2.approx.f16x2 {c}, {c};", 1, 103},
      {"ex2.bf16x2", "MUFU.EX2", 'r', "ex2.approx.ftz.bf16x2 {c}, {c};", 2, 90, 102},
      {"ex2.bf16x2", "MUFU.EX2", 'r', "ex2.approx.ftz.bf16x2 {c}, {c};", 1, 103},
      {"lg2.f32", "MUFU.LG2", 'f', "lg2.approx.ftz.f32 {c}, {c};"},
      {"rcp.f32", "MUFU.RCP", 'f', "rcp.approx.ftz.f32 {c}, {c}; add.ftz.f32 {c}, {c}, {f};"},
      {"rsqrt.f32", "MUFU.RSQ", 'f', "rsqrt.approx.ftz.f32 {c}, {c};"},
      {"tanh.f32", "MUFU.TANH", 'f', "tanh.approx.f32 {c}, {c};"},
      {"sin.f32", "MUFU.SIN", 'f', "sin.approx.ftz.f32 {c}, {c};"},
      // Conversions: packs of two floats, and unpacks.
      {"cvt.bf16x2", "F2FP", 'r', "mov.b32 {x}, {c}; cvt.rn.bf16x2.f32 {c}, {x}, {f};"},
      {"cvt.f16x2", "F2FP", 'r', "mov.b32 {x}, {c}; cvt.rn.f16x2.f32 {c}, {x}, {f};"},
      {"cvt.e4m3x2", "F2FP", 'r',
       "mov.b32 {x}, {c}; cvt.rn.satfinite.e4m3x2.f32 {k}, {x}, {f}; cvt.rn.satfinite.e4m3x2.f32 {l}, {x}, {h}; "
       "mov.b32 {c}, {{k}, {l}};",
       2, 89},
      {"cvt.e5m2x2", "F2FP", 'r',
       "mov.b32 {x}, {c}; cvt.rn.satfinite.e5m2x2.f32 {k}, {x}, {f}; cvt.rn.satfinite.e5m2x2.f32 {l}, {x}, {h}; "
       "mov.b32 {c}, {{k}, {l}};",
       2, 89},
      {"cvt.e3m2x2", "F2FP", 'r',
       "mov.b32 {x}, {c}; cvt.rn.satfinite.e3m2x2.f32 {k}, {x}, {f}; cvt.rn.satfinite.e3m2x2.f32 {l}, {x}, {h}; "
       "mov.b32 {c}, {{k}, {l}};",
       2, 100},
      {"cvt.e2m1x2", "F2FP", 'r', "mov.b32 {x}, {c}; cvt.rn.satfinite.e2m1x2.f32 {b}, {x}, {f}; cvt.u32.u8 {c}, {b};",
       1, 100},
      {"unpack.e4m3x2", "F2FP", 'r', "mov.b32 {{k}, {l}}, {c}; cvt.rn.f16x2.e4m3x2 {c}, {k};", 1, 89},
      {"unpack.e2m1x2", "F2FP", 'r', "cvt.u8.u32 {b}, {c}; cvt.rn.f16x2.e2m1x2 {c}, {b};", 1, 100},
      // Arithmetic.
      {"ffma", "FFMA", 'f', "fma.rn.f32 {c}, {c}, {f}, {h};"},
      {"ffma2", "FFMA2", 'd', "fma.rn.f32x2 {c}, {c}, {p}, {q};", 1, 100},
      {"fmul", "FMUL", 'f', "mul.rn.f32 {c}, {c}, {f};"},
      {"fadd", "FADD", 'f', "add.rn.f32 {c}, {c}, {f};"},
      {"fmax", "FMNMX", 'f', "max.f32 {c}, {c}, {f}; min.f32 {c}, {c}, {h};", 2},
      {"fmax3", "FMNMX3", 'f', "max.f32 {c}, {c}, {f}, {h};", 1, 100},
      {"hfma2", "HFMA2", 'r', "fma.rn.f16x2 {c}, {c}, {r}, {s};"},
      {"hfma2.bf16", "HFMA2", 'r', "fma.rn.bf16x2 {c}, {c}, {r}, {s};"},
      {"imad", "IMAD", 'r', "mad.lo.u32 {c}, {c}, {r}, {s};"},
      {"imad.wide", "IMAD", 'd', "cvt.u32.u64 {i}, {c}; mad.wide.u32 {c}, {i}, {r}, {p};"},
      {"iadd3", "IADD3", 'r', "add.u32 {c}, {c}, {r}; sub.u32 {c}, {s}, {c};", 1},
      {"lop3", "LOP3", 'r', "lop3.b32 {c}, {c}, {r}, {s}, 0x6a;"},
      {"prmt", "PRMT", 'r', "prmt.b32 {c}, {c}, {r}, {s};"},
      {"shf", "SHF", 'r', "shf.l.wrap.b32 {c}, {c}, {r}, {s};"},
      {"popc", "POPC", 'r', "popc.b32 {c}, {c};"},
      // Across the warp.
      {"shfl", "SHFL", 'r', "shfl.sync.bfly.b32 {c}, {c}, 1, 0x1f, 0xffffffff;"},
      {"redux", "REDUX", 'r', "redux.sync.max.u32 {c}, {c}, 0xffffffff;", 1, 80, 99},
      {"redux", "CREDUX", 'r', "redux.sync.max.u32 {c}, {c}, 0xffffffff;", 1, 100},
      {"vote", "VOTE", 'r', "setp.ge.u32 {t}, {c}, {r}; vote.sync.ballot.b32 {c}, {t}, 0xffffffff;"},
      // Memory. Addresses hold themselves, so that a chain goes on for ever.
      {"lds.32", "LDS", 'a', "ld.volatile.shared.u32 {c}, [{c}];"},
      {"lds.64", "LDS", 'a', "ld.volatile.shared.v2.u32 {{c}, {i}}, [{c}];"},
      {"lds.128", "LDS", 'a', "ld.volatile.shared.v4.u32 {{c}, {i}, {j}, {o}}, [{c}];", 1, 80, 999, 8},
      {"sts.32", "STS", 'a', "st.volatile.shared.u32 [{c}], {c};"},
      {"sts.64", "STS", 'a', "st.volatile.shared.v2.u32 [{c}], {{c}, {c}};"},
      {"sts.128", "STS", 'a', "st.volatile.shared.v4.u32 [{c}], {{c}, {c}, {c}, {c}};"},
      {"ldmatrix.x4", "LDSM", 'a', "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{c}, {i}, {j}, {o}}, [{c}];", 1, 80, 999,
       8},
      {"stmatrix.x4", "STSM", 'a', "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{c}], {{c}, {c}, {c}, {c}};", 1, 90},
      {"ldg.l1", "LDG", 'g', "ld.global.ca.u64 {c}, [{c}];"},
      {"ldg.l2", "LDG", 'g', "ld.global.cg.u64 {c}, [{c}];"},
      {"stg", "STG", 'g', "st.volatile.global.u64 [{c}], {c};"},
      // Matrix products of a warp.
      {"mma.bf16", "HMMA", 'm',
       "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {m}, {{r}, {s}, {r}, {s}}, {{s}, {r}}, {m};", 1, 80, 999,
       8},
      // Matrix products of a warpgroup, A from shared memory or from registers, waited for once an iteration.
      {"wgmma.bf16.n64", "HGMMA", 'w',
       "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {m}, {u}, {v}, 1, 1, 1, 0, 0;", 1, 90, 99, 1, 64},
      {"wgmma.bf16.n128", "HGMMA", 'w',
       "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {m}, {u}, {v}, 1, 1, 1, 0, 0;", 1, 90, 99, 1, 128},
      {"wgmma.bf16.n256", "HGMMA", 'w',
       "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {m}, {u}, {v}, 1, 1, 1, 0, 0;", 1, 90, 99, 1, 256},
      {"wgmma.bf16.n128.registers", "HGMMA", 'w',
       "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {m}, {{r}, {s}, {r}, {s}}, {v}, 1, 1, 1, 0;", 1, 90, 99,
       1, 128},
      {"wgmma.e4m3.n64", "QGMMA", 'w', "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {m}, {u}, {v}, 1, 1, 1;",
       1, 90, 99, 1, 64},
      {"wgmma.e4m3.n128", "QGMMA", 'w', "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {m}, {u}, {v}, 1, 1, 1;",
       1, 90, 99, 1, 128},
      {"wgmma.e4m3.n256", "QGMMA", 'w', "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {m}, {u}, {v}, 1, 1, 1;",
       1, 90, 99, 1, 256},
      {"wgmma.e4m3.n128.registers", "QGMMA", 'w',
       "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {m}, {{r}, {s}, {r}, {s}}, {v}, 1, 1, 1;", 1, 90, 99, 1,
       128},
      // Round trips of a block's barriers.
      {"barrier.block", "BAR", 's', "bar.sync 0;", 1, 80, 999, 1},
      {"mbarrier.round_trip", "SYNCS", 's',
       "mbarrier.arrive.shared.b64 %state, [waited]; AGAIN: mbarrier.try_wait.shared.b64 {t}, [waited], %state; @!{t} "
       "bra AGAIN;",
       2, 90, 999, 1},
  };
  return probes;
}

const std::vector<std::pair<std::string, std::string>>& cuda_pairs() {
  static const std::vector<std::pair<std::string, std::string>> pairs = {
      {"ex2.f32", "cvt.bf16x2"}, {"ex2.f32", "cvt.e4m3x2"}, {"ex2.f32", "cvt.e2m1x2"},
      {"ex2.f32", "ffma"},       {"ex2.f32", "fmax"},       {"ex2.f32", "lg2.f32"},
      {"ex2.f32", "popc"},       {"ex2.f32", "mma.bf16"},   {"cvt.bf16x2", "cvt.e4m3x2"},
      {"cvt.bf16x2", "lop3"},    {"cvt.bf16x2", "ffma"},    {"cvt.e4m3x2", "lop3"},
      {"lop3", "prmt"},          {"lop3", "ffma"},          {"lop3", "fmax"},
      {"lop3", "shf"},           {"ffma", "imad"},          {"ffma", "hfma2"},
      {"imad", "lop3"},          {"imad", "hfma2"},         {"hfma2", "lop3"},
      {"shfl", "ffma"},          {"shfl", "lds.32"},        {"shfl", "ex2.f32"},
      {"mma.bf16", "ffma"},      {"mma.bf16", "lop3"},      {"ffma2", "ffma"},
      {"ffma2", "ex2.f32"}};
  return pairs;
}

const std::vector<std::string>& cuda_archs() {
  static const std::vector<std::string> archs = {"sm_80", "sm_90a", "sm_100a", "sm_103a"};
  return archs;
}

}  // namespace pinch::probe
