// Findings: each where it was planted, and none where nothing is wrong.
#include <gmock/gmock.h>

#include <fmt/core.h>

#include <algorithm>

#include "tests/unit/sass_support.h"

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
  EXPECT_THAT(of("division_loop"), testing::IsSupersetOf({"call-in-loop", "division"}));
  EXPECT_THAT(of("exp_denormal"), Contains("exp2-denormal"));
  EXPECT_THAT(of("scalar_loads"), Contains("scalar-loads"));
  EXPECT_THAT(of("forced_spill"), Contains("spill-in-loop"));
  EXPECT_THAT(of("forced_spill"), Not(Contains("dynamic-array")));
  EXPECT_THAT(of("dynamic_array"), Contains("dynamic-array"));
  EXPECT_THAT(of("dynamic_array"), Not(Contains("spill-in-loop")));
  EXPECT_THAT(of("hmma_loop"), Contains("nop-delay"));
  for (const char* clean : {"softmax_loop", "dequant_loop", "poly_rolled", "poly_unrolled", "warp_roles", "pack8_loop"})
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
  const KernelReport report = report_of(program, "exp_denormal");
  const Lint& lint = report.loops.at(0).lints.at(0);
  EXPECT_EQ(lint.id, "exp2-denormal");
  EXPECT_TRUE(kernel_of(program, "exp_denormal").instructions.at(lint.offset / kInstructionBytes).is("FSETP"));
  EXPECT_EQ(lint.line, 98u);
  EXPECT_EQ(lint.saves_cycles, 2 + 2 * 1);  // FSETP of the ALU and two FMUL
}

TEST(SassLints, SpeakOnlyOfMasksThatClearWhatIsZeroOrUnread) {
  const Program program = program_of("findings.sm_90a.nvdisasm.txt");
  const auto of = [&](const char* kernel) { return report_of(program, kernel).loops.at(0).lints; };
  ASSERT_EQ(of("mask_unread").size(), 1u);
  EXPECT_EQ(of("mask_unread")[0].id, "mask-after-pack");
  EXPECT_THAT(of("mask_unread")[0].message, HasSubstr("2 LOP3"));
  EXPECT_EQ(of("mask_unread")[0].saves_cycles, 2 * 2);
  ASSERT_EQ(of("mask_stored").size(), 1u);
  EXPECT_EQ(of("mask_stored")[0].id, "mask-after-pack");
  EXPECT_THAT(of("mask_read"), IsEmpty());
}

// Lints of a loop of `body` on sm_90a, one instruction or label a line.
std::vector<Lint> lints_of(const std::vector<std::string>& body) {
  std::string text = "\t.target\tsm_90a\n\t.section\t.text.k,\"ax\"\n.L_x_0:\n";
  int offset = 0;
  const auto add = [&](const std::string& instruction) {
    text += fmt::format("  /*{:04x}*/  {} ;\n", offset, instruction);
    offset += kInstructionBytes;
  };
  for (const std::string& line : body) {
    if (line.back() == ':') {
      text += line + '\n';
    } else {
      add(line);
    }
  }
  add("@P6 BRA `(.L_x_0)");
  add("EXIT");
  return report_of(from_text(text), "k").loops.at(0).lints;
}

std::vector<Lint> lints_of_kind(std::string_view id, const std::vector<std::string>& body) {
  std::vector<Lint> lints = lints_of(body);
  std::erase_if(lints, [&](const Lint& lint) { return lint.id != id; });
  return lints;
}

TEST(SassLints, FollowThePackToTheMaskAndTheMaskToItsReaders) {
  const std::string pack = "F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C R4, R2, R3, RZ",
                    merged = "F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C R4, R2, R3, R9",
                    low16 = "LOP3.LUT R5, R4, 0xffff, RZ, 0xc0, !PT", low8 = "LOP3.LUT R5, R4, 0xff, RZ, 0xc0, !PT",
                    store = "STG.E desc[UR4][R6.64], R5", store16 = "STG.E.U16 desc[UR4][R6.64], R5";
  EXPECT_EQ(lints_of({pack, low16, store}).size(), 1u);      // the upper half of the pack is zero
  EXPECT_THAT(lints_of({merged, low16, store}), IsEmpty());  // it is the lower half of R9
  EXPECT_EQ(lints_of({merged, low16, store16}).size(), 1u);
  EXPECT_THAT(lints_of({pack, low8, store16}), IsEmpty());  // the second of the two numbers
  EXPECT_THAT(lints_of({pack, "LOP3.LUT R5, R4, 0xff, RZ, 0xfc, !PT", store}), IsEmpty());  // an OR
  EXPECT_THAT(lints_of({pack, "@P0 MOV R4, R8", low16, store}), IsEmpty());                 // maybe no pack
  EXPECT_THAT(lints_of({low16, store, pack}), IsEmpty());                                   // nor at first
  EXPECT_THAT(lints_of({pack, low8, "PRMT R5, R5, 0x5410, R8", store}), IsEmpty());         // takes both bytes
  EXPECT_EQ(lints_of({pack, low8, "PRMT R5, R5, 0x4440, R8", store}).size(), 1u);           // takes one
  EXPECT_THAT(lints_of({pack, low8, "PRMT R5, R5, 0x4440, R5", store}).size(), 1u);         // twice the same
  EXPECT_THAT(lints_of({pack, low8, "PRMT R5, R5, 0x4450, R5", store}), IsEmpty());         // and the other
  EXPECT_EQ(lints_of({pack, low8, "@P1 MOV R5, RZ", "STG.E.U8 desc[UR4][R6.64], R5"}).size(), 1u);
  EXPECT_THAT(lints_of({pack, low8, "IADD3 R8, R5, R8, RZ", store16}), IsEmpty());  // arithmetic
}

TEST(SassLints, SpeakOnlyOfNeighboursAtOneAddress) {
  const std::string a = "LDG.E R0, desc[UR4][R2.64]", b = "LDG.E R1, desc[UR4][R2.64+0x4]",
                    far = "LDG.E R8, desc[UR4][R2.64+0x100]", add = "FADD R9, R0, R1";
  const auto joined = lints_of({a, b, add});
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].id, "scalar-loads");
  EXPECT_EQ(joined[0].saves_cycles, 4);  // two LDG of 4 cycles become one
  EXPECT_THAT(lints_of({a, far, add}), IsEmpty());
  const auto with_far = lints_of({a, far, b, add});
  ASSERT_EQ(with_far.size(), 1u);
  EXPECT_THAT(with_far[0].message,
              HasSubstr("3 LDG of one word fetch neighbouring words; where the address is aligned 2"));
  EXPECT_THAT(lints_of({a, "IADD3 R2, P0, R2, 0x10, RZ", b, add}), IsEmpty());  // another address
  EXPECT_THAT(lints_of({a, "UMOV UR5, 0x1", b, add}), IsEmpty());               // another descriptor
  EXPECT_THAT(lints_of({"@P0 " + a, b, add}), IsEmpty());                       // not both always
  EXPECT_THAT(lints_of({"LDG.E.S8 R0, desc[UR4][R2.64]", b, add}), IsEmpty());  // not a word
  EXPECT_THAT(lints_of({"LDS R0, [R2]", "BAR.SYNC.DEFER_BLOCKING 0x0", "LDS R1, [R2+0x4]", add}), IsEmpty());
  const auto shared = lints_of({"LDS R0, [R2]", "LDS R1, [R2+0x4]", add});
  ASSERT_EQ(shared.size(), 1u);
  EXPECT_EQ(shared[0].saves_cycles, 1);  // shared memory moves as many words; an issue slot is saved
  // Sixteen bytes from 4 on lie in two lines where the address is aligned; in one where it is 12 behind a line.
  std::vector<std::string> four;
  for (int i = 1; i <= 4; ++i) four.push_back(fmt::format("LDG.E R{}, desc[UR4][R12.64+0x{:x}]", i, 4 * i));
  EXPECT_THAT(lints_of(four).at(0).message,
              HasSubstr("4 LDG of one word fetch neighbouring words; where the address is "
                        "aligned 1"));
  // Three words are no load: two and one.
  const auto three = lints_of({four[0], four[1], four[2], "FADD R9, R2, R3"});
  ASSERT_EQ(three.size(), 1u);
  EXPECT_THAT(three[0].message, HasSubstr("aligned 2 of one, two or four"));
  EXPECT_EQ(three[0].saves_cycles, 4);  // of three LDG of 4 cycles
  EXPECT_THAT(ids(report_of(program_of("findings.sm_90a.nvdisasm.txt"), "loads_apart")), IsEmpty());
}

TEST(SassLints, JoinNoLoadsThatAStoreOrAWaitTellsApart) {
  const std::string a = "LDG.E R0, desc[UR4][R2.64]", b = "LDG.E R1, desc[UR4][R2.64+0x4]", add = "FADD R9, R0, R1",
                    store = "STG.E desc[UR4][R8.64], R9";
  for (const char* between :
       {"STG.E desc[UR4][R8.64], R9", "ST.E desc[UR4][R8.64], R9",
        "REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R8.64], R9", "ATOMG.E.ADD.STRONG.GPU PT, R20, desc[UR4][R8.64], R9",
        "MEMBAR.SC.GPU", "WARPSYNC.ALL", "CCTL.IVALL", "BAR.SYNC.DEFER_BLOCKING 0x0",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R8+URZ], R4", "DEPBAR.LE SB0, 0x0",
        "LDG.E.STRONG.SYS R20, desc[UR4][R8.64]", "LD.E.STRONG.GPU R20, desc[UR4][R8.64]", "CALL.REL.NOINC `(.L_x_0)",
        "UTMASTG.2D [UR8], [UR4]"})
    EXPECT_THAT(lints_of_kind("scalar-loads", {a, between, b, add}), IsEmpty()) << between;
  for (const char* between : {"STS [R8], R9", "LDS R20, [R8]", "LDG.E R20, desc[UR4][R8.64]", "STL [R1], R9",
                              "SHFL.BFLY PT, R20, R9, 0x1, 0x1f", "@P0 EXIT"})
    EXPECT_EQ(lints_of_kind("scalar-loads", {a, between, b, add}).size(), 1u) << between;
  // Behind the store they are neighbours again, and what it does not lie between stay so.
  EXPECT_EQ(lints_of_kind("scalar-loads", {a, store, a, b, add}).size(), 1u);
  EXPECT_EQ(lints_of_kind("scalar-loads", {a, b, store, add}).size(), 1u);
  // What is constant for the kernel no store changes; a wait may stand for the kernel that writes it.
  const std::string c = "LDG.E.CONSTANT R0, desc[UR4][R2.64]", d = "LDG.E.CONSTANT R1, desc[UR4][R2.64+0x4]";
  EXPECT_EQ(lints_of_kind("scalar-loads", {c, store, d, add}).size(), 1u);
  EXPECT_THAT(lints_of_kind("scalar-loads", {c, "MEMBAR.SC.GPU", d, add}), IsEmpty());
  EXPECT_THAT(lints_of_kind("scalar-loads", {c, b, add}), IsEmpty());  // by two paths
  for (const char* between :
       {"STS [R8], R9", "STSM.16.M88.4 [R8], R12", "ATOMS.ADD R20, [R8], R9", "ST.E desc[UR4][R8.64], R9",
        "LDGSTS.E [R8], desc[UR4][R10.64]", "WARPSYNC.ALL", "FENCE.VIEW.ASYNC.S"})
    EXPECT_THAT(lints_of_kind("scalar-loads", {"LDS R0, [R2]", between, "LDS R1, [R2+0x4]", add}), IsEmpty())
        << between;
  EXPECT_EQ(lints_of_kind("scalar-loads", {"LDS R0, [R2]", store, "LDS R1, [R2+0x4]", add}).size(), 1u);
}

TEST(SassLints, JoinNoLoadsBetweenWhichOtherCodeMayRun) {
  const std::string a = "LDG.E.CONSTANT R0, desc[UR4][R2.64]", b = "LDG.E.CONSTANT R1, desc[UR4][R2.64+0x4]";
  // A spin on a flag; a branch around a store; an inner loop that holds the second load.
  EXPECT_THAT(lints_of_kind("scalar-loads", {a, ".L_x_1:", "LDS R20, [R8]", "ISETP.NE.AND P1, PT, R20, RZ, PT",
                                             "@!P1 BRA `(.L_x_1)", b}),
              IsEmpty());
  EXPECT_THAT(lints_of_kind("scalar-loads", {a, "@P0 BRA `(.L_x_1)", "STG.E desc[UR4][R8.64], R9", ".L_x_1:", b}),
              IsEmpty());
  EXPECT_THAT(lints_of_kind("scalar-loads", {a, ".L_x_1:", b, "IADD3 R9, R9, 0x1, RZ", "@P1 BRA `(.L_x_1)"}),
              IsEmpty());
}

TEST(SassLints, SpeakOfEveryProductThatRunsAlone) {
  const std::string last = "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24, gsb0",
                    product = "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24", wait0 = "WARPGROUP.DEPBAR.LE gsb0, 0x0",
                    wait1 = "WARPGROUP.DEPBAR.LE gsb0, 0x1";
  constexpr double kWait = 62;
  const auto of = [](const std::vector<std::string>& body) { return lints_of_kind("wgmma-serialised", body); };
  const auto one = of({last, wait0});  // it is waited for before its next iteration starts
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].saves_cycles, kWait);
  EXPECT_THAT(of({last, wait1}), IsEmpty());
  const auto most = of({product, last, wait0, last, wait0, last, wait0});  // two share a group
  ASSERT_EQ(most.size(), 1u);
  EXPECT_EQ(most[0].saves_cycles, 2 * kWait);
  EXPECT_EQ(most[0].offset, 3u * kInstructionBytes);
  EXPECT_THAT(most[0].message, HasSubstr("2 of 4 wgmma"));
  EXPECT_THAT(of({product, last, wait0}), IsEmpty());
  EXPECT_THAT(of({product, last, wait0, product, last, wait0}), IsEmpty());
  EXPECT_THAT(of({last, wait1, last, wait0}), IsEmpty());  // the second starts while the first is in flight
  // A product of an inner loop runs as often as that goes round: it is spoken of there, not in the loop around it.
  EXPECT_THAT(of({".L_x_1:", last, wait1, "@P1 BRA `(.L_x_1)", wait0}), IsEmpty());
  EXPECT_THAT(of({last, "@P1 " + wait0}), IsEmpty());  // not a wait of every iteration
}

TEST(SassLints, SpeakOnlyOfExponentialsThatACompareHalves) {
  const std::string compare = "FSETP.GEU.AND P0, PT, R0, -126, PT", halve = "@!P0 FMUL R0, R0, 0.5",
                    exp = "MUFU.EX2 R5, R0", square = "@!P0 FMUL R5, R5, R5";
  EXPECT_EQ(lints_of({compare, halve, exp, square}).size(), 1u);
  EXPECT_THAT(lints_of({compare, exp, "FSEL R5, R5, RZ, P0"}), IsEmpty());
  EXPECT_THAT(lints_of({compare, "ISETP.GE.AND P0, PT, R7, R8, PT", halve, exp, square}), IsEmpty());
  EXPECT_THAT(lints_of({compare, halve, "FADD R0, R1, R2", exp, square}), IsEmpty());
  EXPECT_THAT(lints_of({compare, halve, exp}), IsEmpty());  // not squared: another function
  EXPECT_THAT(lints_of({compare, halve, exp, "@P0 FMUL R5, R5, R5"}), IsEmpty());
  EXPECT_THAT(lints_of({compare, halve, exp, "@!P0 FMUL R5, R5, R6"}), IsEmpty());
  EXPECT_THAT(lints_of({"FSETP.GEU.AND P0, PT, R9, -126, PT", halve, exp, square}), IsEmpty());  // of another value
  EXPECT_EQ(lints_of({"FSETP.GEU.AND P0, PT, R0.reuse, -126, PT", halve, exp, square}).size(), 1u);
  EXPECT_THAT(ids(report_of(program_of("findings.sm_90a.nvdisasm.txt"), "exp_compared")), IsEmpty());
}

TEST(SassLints, TakeCyclesFromTheMachine) {
  // 94 LDL and 88 STL of 4 cycles, less those outside the loop; two local accesses; FCHK 2 and five FFMA of 1.
  const Program hopper = program_of("kernels.sm_90a.nvdisasm.txt"), ampere = program_of("kernels.sm_80.cuobjdump.txt");
  const auto saves = [](const Program& program, const char* kernel, const char* id) {
    for (const LoopReport& loop : report_of(program, kernel).loops) {
      for (const Lint& lint : loop.lints) {
        if (lint.id == id) return std::pair(lint.saves_cycles, lint.message);
      }
    }
    return std::pair(-1.0, std::string());
  };
  const auto [cycles, message] = saves(hopper, "forced_spill", "spill-in-loop");
  EXPECT_EQ(cycles, 4 * std::stoi(message));
  EXPECT_EQ(saves(hopper, "dynamic_array", "dynamic-array").first, 2 * 4);
  EXPECT_EQ(saves(hopper, "division_loop", "division").first, 2 + 5 * 1);
  EXPECT_EQ(saves(ampere, "division_loop", "division").first, 2 + 5 * 2);  // FFMA of 2 cycles there
  EXPECT_EQ(saves(hopper, "wgmma_serial", "wgmma-serialised").first, 4 * 62);
  EXPECT_EQ(saves(program_of("findings.sm_90a.nvdisasm.txt"), "integer_division", "integer-division").first, 3 * 8);
}

TEST(SassLints, SayWhichWereNotLookedFor) {
  const auto not_run = [](const char* file, const char* kernel) {
    std::vector<std::string> found;
    for (const LintKind& kind : report_of(program_of(file), kernel).lints_not_run) {
      if (kind.needs != Needs::kPtx) found.emplace_back(kind.id);
    }
    return found;
  };
  EXPECT_THAT(not_run("kernels.sm_90a.nvdisasm.txt", "softmax_loop"), IsEmpty());
  EXPECT_THAT(not_run("kernels.sm_90a.cubin", "softmax_loop"),
              testing::ElementsAre("mask-after-pack", "exp2-denormal", "integer-division", "scalar-loads"));
  EXPECT_THAT(not_run("kernels.sm_100a.nohex.txt", "softmax_loop"), testing::ElementsAre("drain"));
  const auto called = report_of(program_of("kernels.sm_90a.cubin"), "division_loop").loops.at(0).lints;
  EXPECT_EQ(called.at(0).id, "call-in-loop");
  EXPECT_THAT(called.at(0).message, HasSubstr("a call of the code at 0x"));
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
      "  /*0040*/  @P0 BRA `(.L_x_0) ;  /* 0xfffffffc00f08947 */\n  /* 0x000fea000383ffff */\n"
      "  /*0050*/  EXIT ;  /* 0x000000000000794d */\n  /* 0x000fea0003800000 */\n");
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

TEST(PtxLints, SeeLoopsWhateverTheirLabelsBeginWith) {
  for (const char* label : {"$L__BB0_1", "L", "LAB_WAIT_7", "_loop", "%loop"}) {
    const auto lints =
        lints_of_ptx(fmt::format("\tmov.f32 %f9, 0f3F000000;\n{0}:\n\tex2.approx.ftz.f32 %f2, %f1;\n"
                                 "\tmul.f32 %f3, %f2, %f9;\n\t@%p1 bra {0};\n",
                                 label));
    ASSERT_EQ(lints.size(), 1u) << label;
    EXPECT_EQ(lints[0].id, "algebra-scale-after-exp2");
  }
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

TEST(PtxLints, WantAFenceRoundALoopToo) {
  const std::string
      head = "$L__BB0_1:\n",
      wgmma =
          "\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, 1, 1, 1, 0, 0;\n",
      store = "\tst.shared.u32 [%r1], %r2;\n\tbar.sync 0;\n", load = "\tld.shared.u32 %r3, [%r1];\n",
      fence = "\tfence.proxy.async.shared::cta;\n", back = "\t@%p1 bra $L__BB0_1;\n";
  const auto missing = lints_of_ptx(head + wgmma + store + back + load);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].id, "missing-proxy-fence");
  EXPECT_EQ(missing[0].line, 9u);
  EXPECT_THAT(missing[0].message, HasSubstr("line 10"));
  EXPECT_THAT(lints_of_ptx(head + fence + wgmma + store + back), IsEmpty());
  EXPECT_THAT(lints_of_ptx(head + wgmma + store + fence + back), IsEmpty());
  EXPECT_THAT(lints_of_ptx(head + wgmma + store + load + back), IsEmpty());  // an exchange between threads
  EXPECT_THAT(lints_of_ptx(wgmma + head + store + back), IsEmpty());         // a product before the loop
  // A load of another array is not what the store was for; one of the same array, or of an unknown one, may be.
  const std::string tile = "\tmov.u32 %r7, tile;\n\tadd.s32 %r1, %r7, %r6;\n",
                    scale = "\tmov.u32 %r8, scale;\n\tld.shared.f32 %f9, [%r8+4];\n";
  EXPECT_EQ(lints_of_ptx(tile + head + scale + wgmma + store + back).size(), 1u);
  EXPECT_EQ(lints_of_ptx(tile + head + wgmma + store + "\tst.shared.u32 [scale], %r2;\n" + scale + back).size(), 1u);
  EXPECT_THAT(lints_of_ptx(tile + head + "\tld.shared.f32 %f9, [tile+8];\n" + wgmma + store + back), IsEmpty());
  EXPECT_THAT(lints_of_ptx(tile + head + "\tld.shared.f32 %f9, [%r20];\n" + wgmma + store + back), IsEmpty());
  // Of two stores before one read, the later one's way back is not closed by the earlier one's.
  EXPECT_EQ(
      lints_of_ptx(head + "\t@%p3 bra $L2;\n" + store + "\t@%p2 bra $L2;\n" + fence + "$L2:\n" + wgmma + store + back)
          .size(),
      1u);
  EXPECT_THAT(lints_of_ptx(head + wgmma + fence + back + store + "\tbra $L2;\n" + "$L3:\n" + back + "$L2:\n\tret;\n"),
              IsEmpty());                                                           // another role's
  EXPECT_THAT(lints_of_ptx(wgmma + store + "\t@%p1 bra $L2;\n$L2:\n"), IsEmpty());  // a branch that goes on
  const std::string wait =
      "\t{\n\tLAB_WAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], %r9;\n"
      "\t@%p2 bra DONE;\n\tbra LAB_WAIT;\n\tDONE:\n\t}\n";  // each with labels of its own
  EXPECT_EQ(lints_of_ptx(head + wait + wgmma + store + wait + back).size(), 1u);
  EXPECT_THAT(lints_of_ptx(head + wait + wgmma + store + wait + fence + back), IsEmpty());
  EXPECT_EQ(lints_of_ptx(head + wgmma + "$L2:\n" + store + "\t@%p2 bra $L2;\n" + back + back).size(), 1u);  // once
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

TEST(SassLints, LookInThePtxOfTheKernelsName) {
  const auto entry = [](const char* name, const char* body) {
    return fmt::format(".entry {}()\n{{\n{}}}\n", name, body);
  };
  const char *sets = "\tsetmaxnreg.inc.sync.aligned.u32 232;\n", *returns = "\tret;\n";
  Program program = program_of("kernels.sm_90a.cubin");
  program.ptx.push_back({"sm_90a", std::make_shared<const std::string>(
                                       ".version 9.0\n.target sm_90a\n.address_size 64\n" + entry("poly_rolled", sets) +
                                       entry("softmax_loop", returns) + entry("softmax_loop", sets))});
  const auto reports = analyse(program, {});
  ASSERT_TRUE(reports.ok());
  for (const KernelReport& report : *reports) {
    const bool sets_in_ptx = report.kernel->name == "poly_rolled";  // and of two of a name the first is taken
    EXPECT_EQ(testing::Value(ids(report), Contains("setmaxnreg-ignored")), sets_in_ptx) << report.kernel->name;
  }
}

TEST(SassLints, MissSetmaxnregWhereCopiesAndProductsShareOneCount) {
  EXPECT_THAT(ids(report_of(copies_and_products(""), "k")), Contains("setmaxnreg-missing"));
  EXPECT_THAT(ids(report_of(copies_and_products("USETMAXREG.DEALLOC.CTAPOOL 0x28"), "k")), IsEmpty());
  EXPECT_THAT(ids(report_of(program_of("kernels.sm_90a.cubin"), "wgmma_loop")), Not(Contains("setmaxnreg-missing")));
}

}  // namespace
}  // namespace pinch::sass
