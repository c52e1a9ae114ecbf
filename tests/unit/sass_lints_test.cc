// Findings: each where it was planted, and none where nothing is wrong.
#include <gmock/gmock.h>

#include <fmt/core.h>

#include <algorithm>

#include "tests/unit/sass_support.h"
#include "workbench/sass/diff.h"

namespace pinch::sass {
namespace {

using test::from_text;
using test::kernel_of;
using test::program_of;
using test::report_of;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// "id" of every finding in the loops of a kernel.
std::vector<std::string> ids(const KernelReport& report) {
  std::vector<std::string> found;
  for (const LoopReport& loop : report.loops) {
    for (const Lint& lint : loop.lints) found.push_back(lint.id);
  }
  for (const Lint& lint : report.lints) found.push_back(lint.id);
  return found;
}

TEST(SassLints, FindWhatWasPlanted) {
  const Program program = program_of("kernels.sm_90a.nvdisasm.txt");
  const auto of = [&](const char* kernel) { return ids(report_of(program, kernel)); };
  EXPECT_THAT(of("wgmma_serial"), Contains("wgmma-serialised"));
  EXPECT_THAT(of("wgmma_loop"), Not(Contains("wgmma-serialised")));
  EXPECT_THAT(of("pack8_loop"), Contains("mask-after-pack"));
  EXPECT_THAT(of("division_loop"), testing::IsSupersetOf({"call-in-loop", "division"}));
  EXPECT_THAT(of("exp_denormal"), Contains("exp2-denormal"));
  EXPECT_THAT(of("scalar_loads"), Contains("scalar-loads"));
  EXPECT_THAT(of("forced_spill"), Contains("spill-in-loop"));
  EXPECT_THAT(of("forced_spill"), Not(Contains("dynamic-array")));
  EXPECT_THAT(of("dynamic_array"), Contains("dynamic-array"));
  EXPECT_THAT(of("dynamic_array"), Not(Contains("spill-in-loop")));
  EXPECT_THAT(of("hmma_loop"), Contains("nop-delay"));
  for (const char* clean : {"softmax_loop", "dequant_loop", "poly_rolled", "poly_unrolled", "warp_roles"})
    EXPECT_THAT(of(clean), IsEmpty()) << clean;
}

TEST(SassLints, LeaveAloneProductsOfWhichAGroupStaysInFlight) {
  for (const char* file : {"groups.sm_90a.nvdisasm.txt", "groups.sm_90a.cubin"}) {
    const Program program = program_of(file);
    EXPECT_THAT(ids(report_of(program, "groups_wait0")), Contains("wgmma-serialised")) << file;
    EXPECT_THAT(ids(report_of(program, "groups_wait1")), IsEmpty()) << file;
    EXPECT_THAT(ids(report_of(program, "groups_wait7")), IsEmpty()) << file;
  }
}

TEST(SassLints, PointAtTheInstructionAndItsLine) {
  const Program program = program_of("kernels.sm_90a.nvdisasm.txt");
  const KernelReport report = report_of(program, "pack8_loop");
  const Lint& lint = report.loops.at(0).lints.at(0);
  const Kernel& kernel = kernel_of(program, "pack8_loop");
  EXPECT_TRUE(kernel.instructions.at(lint.offset / kInstructionBytes).is("LOP3"));
  EXPECT_EQ(lint.line, 144u);
  EXPECT_EQ(lint.saves_cycles, 2);
}

TEST(SassLints, FindUmovBetweenTensorInstructionsAndDrains) {
  const Program program = from_text(
      "\t.target\tsm_100a\n\t.section\t.text.k,\"ax\"\n.L_x_0:\n"
      "  /*0000*/  UTCHMMA gdesc[UR6], gdesc[UR14], tmem[UR10], tmem[UR18], idesc[UR19], UP0 ;  /* 0x00ff120e060075ea "
      "*/\n  /* 0x0003d8000800000a */\n"
      "  /*0010*/  UMOV UR4, 0x1 ;  /* 0x0000000000047882 */\n  /* 0x000fe20000000000 */\n"
      "  /*0020*/  UTCHMMA gdesc[UR6], gdesc[UR14], tmem[UR10], tmem[UR18], idesc[UR19], UP0 ;  /* 0x00ff120e060075ea "
      "*/\n  /* 0x0003d8000800000a */\n"
      "  /*0030*/  NOP ;  /* 0x0000000000007918 */\n  /* 0x000fc00000000000 */\n"
      "  /*0040*/  @P0 BRA `(.L_x_0) ;  /* 0xfffffffc00f08947 */\n  /* 0x000fea000383ffff */\n");
  EXPECT_THAT(ids(report_of(program, "k")), testing::IsSupersetOf({"umov-between-tensor", "drain", "nop-delay"}));
}

std::vector<Lint> lints_of_ptx(const std::string& body) {
  const std::string text =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(\n.param .u64 p\n)\n{\n" + body + "}\n";
  const auto functions = read_ptx(text);
  EXPECT_EQ(functions.size(), 1u);
  return lint_ptx(functions.at(0), *Machine::of("sm_90a").value());
}

TEST(PtxLints, FindAlgebra) {
  const auto lints = lints_of_ptx(
      "\tmov.f32 %f9, 0f3F000000;\n$L__BB0_1:\n"
      "\tfma.rn.f32 %f1, %f20, %f21, %f22;\n\tex2.approx.ftz.f32 %f2, %f1;\n\tmul.f32 %f3, %f2, %f9;\n"  // scale
      "\tex2.approx.ftz.f32 %f4, %f23;\n\tmax.f32 %f5, %f5, %f4;\n"                                      // maximum
      "\tdiv.rn.f32 %f6, %f24, %f30;\n\tdiv.rn.f32 %f7, %f25, %f30;\n\tdiv.rn.f32 %f8, %f26, %f30;\n"    // group
      "\t@%p1 bra $L__BB0_1;\n\tret;\n");
  ASSERT_EQ(lints.size(), 3u);
  EXPECT_EQ(lints[0].id, "algebra-scale-after-exp2");
  EXPECT_EQ(lints[0].saves_cycles, 1);  // one FMUL
  EXPECT_EQ(lints[0].line, 12u);
  EXPECT_EQ(lints[1].id, "algebra-max-after-exp2");
  EXPECT_EQ(lints[1].saves_cycles, 2);  // one FMNMX of 2 cycles
  EXPECT_EQ(lints[2].id, "algebra-division-by-group");
  EXPECT_EQ(lints[2].saves_cycles, 16);  // two MUFU.RCP of 8
  EXPECT_THAT(lints[2].message, HasSubstr("2 instructions x 8 cycles"));
}

TEST(PtxLints, LeaveAloneWhatDoesNotFold) {
  EXPECT_THAT(lints_of_ptx("\tmov.f32 %f9, 0f3F000000;\n$L__BB0_1:\n"
                           "\tex2.approx.ftz.f32 %f2, %f1;\n\tmul.f32 %f3, %f2, %f2;\n"  // a square, and used twice
                           "\tex2.approx.ftz.f32 %f4, %f1;\n\tmul.f32 %f5, %f4, %f9;\n\tadd.f32 %f6, %f4, %f9;\n"
                           "\tdiv.rn.f32 %f7, %f24, %f30;\n\tmax.f32 %f8, %f30, %f31;\n\t@%p1 bra $L__BB0_1;\n"),
              IsEmpty());
}

TEST(PtxLints, WantAFenceBetweenGenericStoresAndTheAsyncProxy) {
  const std::string
      store = "\tst.shared.u32 [%r1], %r2;\n\tbar.sync 0;\n",
      fence = "\tfence.proxy.async.shared::cta;\n",
      copy = "\tcp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r3, %r4}], [%r1];\n",
      load = "\tcp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r5];\n";
  const auto missing = lints_of_ptx(store + copy);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].id, "missing-proxy-fence");
  EXPECT_EQ(missing[0].line, 10u);
  EXPECT_THAT(missing[0].message, HasSubstr("line 8"));
  EXPECT_THAT(lints_of_ptx(store + fence + copy), IsEmpty());
  EXPECT_THAT(lints_of_ptx(store + load), IsEmpty());
}

TEST(PtxLints, WantAFenceBeforeProductsThatReadSharedMemory) {
  const std::string
      store = "\tst.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2};\n\tbar.sync 0;\n",
      fence = "\tfence.proxy.async.shared::cta;\n",
      wgmma =
          "\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, 1, 1, 1, 0, 0;\n",
      tcgen05 = "\ttcgen05.mma.cta_group::1.kind::f16 [%r3], %rd1, %rd2, %r4, %p1;\n";
  for (const std::string& product : {wgmma, tcgen05}) {
    const auto missing = lints_of_ptx(store + product);
    ASSERT_EQ(missing.size(), 1u) << product;
    EXPECT_EQ(missing[0].id, "missing-proxy-fence");
    EXPECT_EQ(missing[0].line, 10u);
    EXPECT_THAT(lints_of_ptx(store + fence + product), IsEmpty()) << product;
    EXPECT_THAT(lints_of_ptx(product + store), IsEmpty()) << product;
  }
}

TEST(SassLints, NoticeSetmaxnregThatWasLeftOut) {
  const std::string text =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.entry poly_rolled()\n{\n\tsetmaxnreg.inc.sync.aligned.u32 "
      "232;\n}\n";
  const auto functions = read_ptx(text);
  const Program program = program_of("kernels.sm_90a.cubin");
  const auto report = analyse_kernel(kernel_of(program, "poly_rolled"), &functions.at(0), {});
  EXPECT_THAT(ids(*report), Contains("setmaxnreg-ignored"));
  const auto kept = analyse_kernel(kernel_of(program, "warp_roles"), &functions.at(0), {});
  EXPECT_THAT(ids(*kept), Not(Contains("setmaxnreg-ignored")));
}

// Bulk copies that are waited for, and products of them, with what a line before them says of registers.
Program copies_and_products(const std::string& line) {
  const char* body[] = {"UTMALDG.2D [UR8], [UR4], desc[UR6]", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2+URZ], R4",
                        "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24, gsb0", "EXIT"};
  std::string text = "\t.target\tsm_90a\n\t.section\t.text.k,\"ax\"\n";
  int offset = 0;
  const auto add = [&](const std::string& instruction) {
    text += fmt::format("  /*{:04x}*/  {} ;\n", offset, instruction);
    offset += kInstructionBytes;
  };
  if (!line.empty()) add(line);
  for (const char* instruction : body) add(instruction);
  return from_text(text);
}

TEST(SassLints, MissSetmaxnregWhereCopiesAndProductsShareOneCount) {
  EXPECT_THAT(ids(report_of(copies_and_products(""), "k")), Contains("setmaxnreg-missing"));
  EXPECT_THAT(ids(report_of(copies_and_products("USETMAXREG.DEALLOC.CTAPOOL 0x28"), "k")), IsEmpty());
  EXPECT_THAT(ids(report_of(program_of("kernels.sm_90a.cubin"), "wgmma_loop")), Not(Contains("setmaxnreg-missing")));
}

std::vector<KernelReport> reports_of(const Program& program) {
  auto reports = analyse(program, {});
  EXPECT_TRUE(reports.ok());
  return std::move(reports.value());
}

TEST(SassDiff, JudgesEachKindOfChange) {
  const Program before = program_of("kernels.sm_90a.cubin");
  Program after = program_of("kernels.sm_90a.cubin");
  const auto named = [&](const char* name) -> Kernel& {
    return *std::find_if(after.kernels.begin(), after.kernels.end(), [&](const Kernel& k) { return k.name == name; });
  };
  named("softmax_loop").registers += 8;
  std::swap(named("dequant_loop").instructions[3].mnemonic, named("dequant_loop").instructions[4].mnemonic);
  named("hmma_loop").instructions[5].control.stall = 9;
  named("poly_rolled").instructions[2].mnemonic = "FADD";
  named("exp_denormal").name = "renamed";
  after.kernels.erase(std::find_if(after.kernels.begin(), after.kernels.end(),
                                   [](const Kernel& k) { return k.name == "scalar_loads"; }));
  const auto a = reports_of(before), b = reports_of(after);
  const ProgramDiff result = diff(a, b);
  std::map<std::string, std::string> verdicts;
  for (const KernelPair& pair : result.kernels)
    verdicts[pair.a->kernel->name] = std::string(name_of(pair.verdict)) + (pair.by_name ? "" : " by shape");
  EXPECT_EQ(verdicts["wgmma_loop"], "same");
  EXPECT_EQ(verdicts["softmax_loop"], "resources");
  EXPECT_EQ(verdicts["dequant_loop"], "schedule only");
  EXPECT_EQ(verdicts["hmma_loop"], "schedule only");
  EXPECT_EQ(verdicts["poly_rolled"], "code");
  EXPECT_EQ(verdicts["exp_denormal"], "same by shape");
  ASSERT_EQ(result.only_a.size(), 1u);
  EXPECT_EQ(result.only_a[0]->kernel->name, "scalar_loads");
  EXPECT_TRUE(result.only_b.empty());
}

TEST(SassDiff, TakesWhatIsNotKnownForNoDifference) {
  const Program before = program_of("kernels.sm_90a.cubin");
  Program after = program_of("kernels.sm_90a.cubin");
  for (Kernel& kernel : after.kernels) kernel.registers = kernel.frame_bytes = kernel.shared_bytes = -1;
  const auto a = reports_of(before), b = reports_of(after);
  const ProgramDiff result = diff(a, b);
  for (const KernelPair& pair : result.kernels) EXPECT_EQ(pair.verdict, Verdict::kSame) << pair.a->kernel->name;
  EXPECT_THAT(to_json(result, {}).at("kernels").at(0).at("registers").dump(), HasSubstr(",null]"));
  EXPECT_THAT(to_text(result, {}), HasSubstr(" -> ?"));
  EXPECT_THAT(to_text(result, {}), Not(HasSubstr("-1")));
}

TEST(SassDiff, NeverComparesAcrossArchs) {
  const Program hopper = program_of("kernels.sm_90a.cubin"), blackwell = program_of("kernels.sm_100a.cubin");
  const auto a = reports_of(hopper), b = reports_of(blackwell);
  EXPECT_TRUE(diff(a, b).kernels.empty());
}

}  // namespace
}  // namespace pinch::sass
