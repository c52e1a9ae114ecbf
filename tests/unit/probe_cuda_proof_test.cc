// CUDA probes: every loop proved in its SASS, planted faults caught.
#include <gmock/gmock.h>

#include <fmt/core.h>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "workbench/probe/cuda_probe.h"
#include "workbench/probe/loop_proof.h"

namespace pinch::probe {
namespace {

using testing::HasSubstr;

constexpr char kClockRead[] = "CS2R R8, SR_CLOCKLO";

// SASS of one probe's loop, as text: `body` and the loop's own three instructions, and what stands around it.
CudaModule planted(const CudaProbe& probe, const std::string& kernel, int operations,
                   const std::vector<std::string>& body, const std::vector<std::string>& ahead = {kClockRead},
                   const std::vector<std::string>& behind = {kClockRead}) {
  std::string text = "\t.target\tsm_90a\n\t.section\t.text." + kernel + ",\"ax\"\n";
  int offset = 0;
  const auto add = [&](const std::string& line) {
    text += fmt::format("  /*{:04x}*/  {} ;\n", offset, line);
    offset += 16;
  };
  for (const std::string& line : ahead) add(line);
  text += ".L_x_0:\n";
  for (const std::string& line : body) add(line);
  add("UIADD3 UR4, UR4, -0x1, URZ");
  add("ISETP.NE.AND P0, PT, RZ, UR4, PT");
  add("@P0 BRA `(.L_x_0)");
  for (const std::string& line : behind) add(line);
  add("EXIT");
  CudaModule module;
  module.arch = "sm_90a";
  module.cubin = std::make_shared<const std::string>(text);
  module.kernels = {{kernel, {&probe}, 1, operations, {}, ""}};
  return module;
}

const CudaProbe& probe_named(const std::string& name) {
  return *std::find_if(cuda_probes().begin(), cuda_probes().end(), [&](const CudaProbe& p) { return p.name == name; });
}

std::string proof_in(const std::string& name, int operations, const std::vector<std::string>& body) {
  CudaModule module = planted(probe_named(name), "k", operations, body);
  EXPECT_TRUE(prove(module, {}).ok());
  return to_string(module.kernels[0].proofs[0]);
}

TEST(CudaProof, CountsTheLoopOfTheRightKernel) {
  CudaModule module = planted(probe_named("ex2.f32"), "k", 4, std::vector<std::string>(4, "MUFU.EX2 R0, R0"));
  ASSERT_TRUE(prove(module, {}).ok());
  EXPECT_TRUE(module.kernels[0].proved());
  EXPECT_EQ(module.kernels[0].proofs[0].others, 0);
  module.kernels[0].name = "other";
  ASSERT_TRUE(prove(module, {}).ok());
  EXPECT_FALSE(module.kernels[0].proved());
}

TEST(CudaProof, CatchesAFoldedChainAndAWrongCount) {
  EXPECT_EQ(proof_in("ex2.f32", 4, {"FADD R0, R0, R1", "FADD R0, R0, R1"}),
            "expected 4 MUFU.EX2, found 0 (FADD x 2 instead)");
  EXPECT_EQ(proof_in("ex2.f32", 4, std::vector<std::string>(3, "MUFU.EX2 R0, R0")), "expected 4 MUFU.EX2, found 3");
  EXPECT_EQ(proof_in("ex2.f32", 2, std::vector<std::string>(2, "MUFU.LG2 R0, R0")),
            "expected 2 MUFU.EX2, found 0 (MUFU x 2 instead)");
  // The upper half of a product that nobody reads.
  EXPECT_EQ(proof_in("imad.wide", 2, std::vector<std::string>(2, "IMAD R0, R0, R1, RZ")),
            "expected 2 IMAD.WIDE.U32, found 0 (IMAD x 2 instead)");
  EXPECT_EQ(proof_in("ldmatrix.x4", 1, {"LDSM.16.M88.2 R0, [R0]"}),
            "expected 1 LDSM.16.M88.4, found 0 (LDSM x 1 instead)");
}

// One instruction in the place of another that only its modifiers tell apart: nvdisasm names them.
TEST(CudaProof, CatchesAnotherTypeOrCacheLevel) {
  const struct {
    const char *probe, *own, *other;
  } cases[] = {{"ex2.f32", "MUFU.EX2", "MUFU.EX2.F16x2"},
               {"ldg.l1", "LDG.E.64.STRONG.SM", "LDG.E.64.STRONG.GPU"},
               {"ldg.l2", "LDG.E.64.STRONG.GPU", "LDG.E.64.STRONG.SM"},
               {"lds.32", "LDS", "LDS.64"},
               {"hfma2", "HFMA2", "HFMA2.BF16_V2"},
               {"hfma2.bf16", "HFMA2.BF16_V2", "HFMA2"},
               {"hfma2.bf16", "HFMA2.MMA.BF16_V2", "HFMA2.MMA"},
               {"redux", "REDUX.MAX", "REDUX.SUM"},
               {"wgmma.bf16.n64", "HGMMA.64x64x16.F32.BF16", "HGMMA.64x64x16.F32"},
               {"wgmma.e4m3.n64", "QGMMA.64x64x32.F32.E4M3.E4M3", "QGMMA.64x64x32.F32.E5M2.E5M2"},
               {"unpack.e4m3x2", "F2FP.F16.E4M3.UNPACK_B", "F2FP.F16.E5M2.UNPACK_B"}};
  const auto is_proved = [](const char* probe, const std::string& instruction) {
    std::vector<std::string> body{"WARPGROUP.ARRIVE", instruction + " R0, R0", "WARPGROUP.DEPBAR.LE gsb0, 0x0"};
    if (probe[0] != 'w') body = {body[1]};
    CudaModule module = planted(probe_named(probe), "k", 1, body);
    EXPECT_TRUE(prove(module, {}).ok());
    return module.kernels[0].proved();
  };
  for (const auto& p : cases) {
    EXPECT_TRUE(is_proved(p.probe, p.own)) << p.probe;
    EXPECT_FALSE(is_proved(p.probe, p.other)) << p.probe << " passed " << p.other;
  }
  // Two operations in one instruction's place: on sm_90 two MUFU do a pair.
  EXPECT_EQ(proof_in("ex2.f16x2", 1, {"MUFU.EX2.BF16 R0, R0", "MUFU.EX2.BF16 R0, R0"}),
            "expected 2 MUFU.EX2.F16, found 0 (MUFU x 2 instead)");
  // The products of fp8 are those of f16: what unpacks their operands tells them apart.
  std::vector<std::string> body(10, "F2FP.F16.E5M2.UNPACK_B R0, R0");
  body.insert(body.end(), 2, "HMMA.16816.F32 R0, R0, R4, R0");
  EXPECT_EQ(proof_in("mma.e4m3", 1, body), "2 HMMA.16816.F32, but 0 F2FP.F16.E4M3.UNPACK_B where 10 belong");
  EXPECT_EQ(proof_in("mma.e5m2", 1, body).rfind("2 HMMA.16816.F32 with 10 others", 0), 0u);
}

TEST(CudaProof, SaysWhatItCouldNotSee) {
  const std::vector<std::string> both{"HFMA2 R0, R0, R1, R2", "HFMA2.MMA R0, R0, R1, R2"};
  EXPECT_EQ(proof_in("hfma2", 2, both), "2 HFMA2 (1 of them HFMA2.MMA)");
  sass::Kernel empty;
  const auto by_map = prove(empty, {{"LDG.E.64", 1}}, /*by_map=*/true);
  EXPECT_TRUE(by_map[0].base_only);
  Proof proof;
  proof.opcode = "LDG.E.64";
  proof.expected = proof.found = 4;
  proof.base_only = true;
  EXPECT_EQ(to_string(proof), "4 LDG.E.64 (base opcode only)");
}

TEST(CudaProof, CatchesAClockThatIsNotReadAroundTheLoop) {
  const std::vector<std::string> body(2, "MUFU.EX2 R0, R0"), none, one{kClockRead}, two{kClockRead, kClockRead};
  std::vector<std::string> inside = body;
  inside.push_back(kClockRead);
  const struct {
    const std::vector<std::string>&body, &ahead, &behind;
    bool proved;
  } cases[] = {{body, one, one, true},  {body, none, two, false},   {body, two, none, false},  {body, one, none, false},
               {body, two, one, false}, {inside, none, one, false}, {inside, one, none, false}};
  for (const auto& c : cases) {
    CudaModule module = planted(probe_named("ex2.f32"), "k", 2, c.body, c.ahead, c.behind);
    ASSERT_TRUE(prove(module, {}).ok());
    EXPECT_EQ(module.kernels[0].proved(), c.proved) << &c - cases;
    if (!c.proved) {
      EXPECT_EQ(to_string(module.kernels[0].proofs[0]),
                "2 MUFU.EX2, but not one read of the clock ahead of the loop and one behind it");
    }
  }
}

TEST(CudaProof, CatchesProductsThatTheCompilerSerialised) {
  const std::string product = "HGMMA.64x128x16.F32.BF16 R24, R88, gdesc[UR8], R24", arrive = "WARPGROUP.ARRIVE",
                    wait = "WARPGROUP.DEPBAR.LE gsb0, 0x0";
  EXPECT_EQ(proof_in("wgmma.bf16.n128.registers", 2, {arrive, product, product, wait}),
            "2 HGMMA.64x128x16.F32.BF16 with 2 others (WARPGROUP x 2)");
  EXPECT_EQ(proof_in("wgmma.bf16.n128.registers", 2, {arrive, product, wait, arrive, product, wait}),
            "2 HGMMA.64x128x16.F32.BF16, but 4 WARPGROUP where 2 belong");
}

TEST(CudaProbes, AreWrittenForEveryArchAndRefusedForOthers) {
  for (const std::string& arch : cuda_archs()) {
    CudaOptions options;
    options.arch = arch;
    const auto kernels = choose_kernels(options);
    ASSERT_TRUE(kernels.ok()) << kernels.error().message();
    const std::string ptx = ptx_of(arch, *kernels);
    EXPECT_THAT(ptx, HasSubstr(".target " + arch));
    for (const char* mark : {"{c}", "{m}", "{a}", "{n}", "{i}", "{y}"}) EXPECT_EQ(ptx.find(mark), std::string::npos);
    EXPECT_GT(kernels->size(), 400u);
    EXPECT_EQ(kernels->size() % 2, 0u);
  }
  CudaOptions options;
  options.arch = "sm_70";
  EXPECT_THAT(choose_kernels(options).error().message(), HasSubstr("sm_80 sm_90a sm_100a sm_103a"));
  options.arch = "sm_90a";
  options.only = "cvt.e2m1x2";  // from sm_100 on
  EXPECT_THAT(choose_kernels(options).error().message(), HasSubstr("ex2.f32"));
}

TEST(CudaProbes, LoseOnlyWhatTheCompilerRefuses) {
  const std::vector<CudaProbe> probes = {
      {.name = "lop3", .opcode = "LOP3", .ptx = "lop3.b32 {c}, {c}, {r}, {s}, 0x6a;"},
      {.name = "fnord", .opcode = "FNORD", .ptx = "fnord.b32 {c}, {c};"},
      {.name = "shf", .opcode = "SHF", .ptx = "shf.l.wrap.b32 {c}, {c}, {r}, {s};"}};
  CudaOptions options;
  options.probes = &probes;
  options.disassembler = "none";
  const auto module = build_cuda(options);
  if (!module.ok() && module.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << module.error().message();
  ASSERT_TRUE(module.ok()) << module.error().message();
  for (const CudaKernel& kernel : module->kernels) {
    const bool refused = kernel.probes[0]->name == "fnord" || kernel.probes.back()->name == "fnord";
    EXPECT_EQ(kernel.proved(), !refused) << kernel.name << " " << to_string(kernel.proofs[0]);
    EXPECT_EQ(to_string(kernel.proofs[0]).find("ptxas") != std::string::npos, refused);
  }
}

}  // namespace
}  // namespace pinch::probe
