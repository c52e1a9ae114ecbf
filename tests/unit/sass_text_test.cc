// Reading of disassembly text, and the refusal of what is cut or damaged.
#include <gmock/gmock.h>

#include "tests/unit/sass_support.h"

namespace pinch::sass {
namespace {

using test::data_path;
using test::from_text;
using test::kernel_of;
using test::paths;
using test::program_of;
using test::read_all;
using test::read_bytes;
using testing::HasSubstr;

TEST(SassText, AgreesWithTheCubinInWordsAndBranches) {
  for (const auto& [text_name, cubin_name] : {std::pair("kernels.sm_90a.nvdisasm.txt", "kernels.sm_90a.cubin"),
                                              std::pair("kernels.sm_80.cuobjdump.txt", "kernels.sm_80.cubin"),
                                              std::pair("kernels.sm_100a.nvdisasm.txt", "kernels.sm_100a.cubin"),
                                              std::pair("kernels.sm_103a.nvdisasm.txt", "kernels.sm_103a.cubin")}) {
    const Program text = program_of(text_name), cubin = program_of(cubin_name);
    ASSERT_EQ(text.kernels.size(), cubin.kernels.size());
    for (const Kernel& a : text.kernels) {
      const Kernel& b = kernel_of(cubin, a.name);
      EXPECT_EQ(a.arch.substr(0, 5), b.arch.substr(0, 5));
      ASSERT_EQ(a.instructions.size(), b.instructions.size()) << a.name;
      for (std::size_t i = 0; i < a.instructions.size(); ++i) {
        const Instruction &x = a.instructions[i], &y = b.instructions[i];
        EXPECT_EQ(x.low, y.low);
        EXPECT_EQ(x.high, y.high);
        EXPECT_EQ(x.control, y.control);
        EXPECT_EQ(x.base(), y.base()) << a.name << " " << x.mnemonic;
        EXPECT_EQ(x.conditional, y.conditional) << a.name << " " << x.mnemonic << " " << x.operands;
        if (!x.is("CALL") && !x.is("BSSY")) {
          EXPECT_EQ(x.target, y.target) << a.name << " 0x" << std::hex << x.offset;
        }
      }
    }
  }
}

TEST(SassText, NamesSourceLines) {
  const Program program = program_of("kernels.sm_90a.nvdisasm.txt");
  const Kernel& kernel = kernel_of(program, "softmax_loop");
  EXPECT_THAT(paths(kernel), testing::ElementsAre("kernels.cu"));
  for (const Instruction& i : kernel.instructions) {
    if (i.is("MUFU")) {
      EXPECT_EQ(i.line, 24u);  // the ex2 of kernels.cu
    }
  }
}

TEST(SassText, TakesTheInnermostLineOfInlinedCode) {
  const Program program = from_text(
      "\t.target\tsm_90a\n\t.section\t.text.k,\"ax\"\n"
      "\t//## File \"inner.h\", line 3 inlined at \"k.cu\", line 7\n\t//## File \"k.cu\", line 7\n"
      "        /*0000*/   NOP ;\n        /*0010*/   NOP ;\n\t//## File \"k.cu\", line 8\n        /*0020*/   EXIT ;\n");
  const Kernel& kernel = kernel_of(program, "k");
  EXPECT_THAT(paths(kernel), testing::ElementsAre("inner.h", "k.cu"));
  EXPECT_EQ(kernel.instructions.at(1).line, 3u);
  EXPECT_EQ(kernel.instructions.at(2).line, 8u);
}

TEST(SassText, ReadsTextWithoutWords) {
  const Program program = program_of("kernels.sm_100a.nohex.txt");
  const Kernel& kernel = kernel_of(program, "softmax_loop");
  EXPECT_EQ(kernel.arch, "sm_100a");
  EXPECT_FALSE(kernel.has_words());
  EXPECT_EQ(analyse_flow(kernel).loops.size(), 1u);
}

TEST(SassText, ReadsCarriageReturnsLikeNone) {
  const std::string text = *read_all(data_path("kernels.sm_80.cuobjdump.txt"));
  std::string dos;
  for (const char c : text) {
    if (c == '\n') dos += '\r';
    dos += c;
  }
  const Program a = from_text(text), b = from_text(dos);
  ASSERT_EQ(a.kernels.size(), b.kernels.size());
  for (std::size_t k = 0; k < a.kernels.size(); ++k) {
    EXPECT_EQ(a.kernels[k].name, b.kernels[k].name);
    ASSERT_EQ(a.kernels[k].instructions.size(), b.kernels[k].instructions.size());
    for (std::size_t i = 0; i < a.kernels[k].instructions.size(); ++i) {
      EXPECT_EQ(a.kernels[k].instructions[i].operands, b.kernels[k].instructions[i].operands);
      EXPECT_EQ(a.kernels[k].instructions[i].high, b.kernels[k].instructions[i].high);
    }
  }
}

TEST(SassText, AcceptsOffsetsAbove64KiBAndAnnotations) {
  const Program program = from_text(
      "\t.target\tsm_120\n\t.section\t.text.far,\"ax\",@progbits\n.L_x_0:\n"
      "        /*fff0*/                   FADD R1, R2, R3 &req={0} ?WAIT2_END_GROUP ;   /* 0x0000000302017221 */\n"
      "                                                                                  /* 0x001fca0000000000 */\n"
      "        /*10000*/                  MUFU.EX2 R4, R1 &wr=0x1 ;                      /* 0x0000000100047308 */\n"
      "                                                                                  /* 0x000e240000000800 */\n"
      "        /*10010*/             @P0 BRA `(.L_x_0) ;                                 /* 0xfffffffc00f08947 */\n"
      "                                                                                  /* 0x000fea000383ffff */\n"
      "        /*10020*/                  EXIT ;                                         /* 0x000000000000794d */\n"
      "                                                                                  /* 0x000fea0003800000 */\n");
  const Kernel& kernel = kernel_of(program, "far");
  ASSERT_EQ(kernel.instructions.size(), 4u);
  EXPECT_EQ(kernel.instructions[0].operands, "R1, R2, R3");
  EXPECT_EQ(kernel.instructions[1].operands, "R4, R1");
  EXPECT_EQ(kernel.instructions[1].offset, 0x10000u);
  EXPECT_EQ(kernel.instructions[2].target, 0);
  EXPECT_EQ(kernel.instructions[0].control.wait_mask, 1);
}

TEST(SassText, KeepsTheNameWhereTheSectionSaysMore) {  // as nvdisasm does up to sm_89
  const Program program = from_text(
      "\t.target\tsm_80\n\t.section\t.text.k,\"ax\",@progbits\n\t.sectioninfo\t@\"SHI_REGISTERS=14\"\n"
      "\t.sectionflags\t@\"SHF_BARRIERS=1\"\n\t.align\t128\n        /*0000*/   EXIT ;\n");
  EXPECT_EQ(kernel_of(program, "k").instructions.size(), 1u);
}

// What reading `rows` of a kernel says; "read" where nothing is wrong.
std::string says(const std::string& rows) {
  const auto read = read_bytes("\t.target\tsm_90a\n\t.section\t.text.k,\"ax\"\n" + rows);
  return read.ok() ? "read" : read.error().message();
}

TEST(SassText, RefusesWhatIsCutOrDamagedNamingTheLine) {
  const std::string
      add = "        /*0000*/   FADD R1, R2, R3 ;   /* 0x0000000302017221 */\n",
      high = "                   /* 0x001fca0000000000 */\n",
      exit = "        /*0010*/   EXIT ;   /* 0x000000000000794d */\n                   /* 0x000fea0003800000 */\n";
  EXPECT_EQ(says(add + high + exit), "read");
  EXPECT_THAT(says(add), HasSubstr("planted:3: the second half"));
  EXPECT_THAT(says(add + exit), HasSubstr("planted:4: the second half"));
  EXPECT_THAT(says("        /*0000*/   BRA `(.L_x_9) ;\n"), HasSubstr(".L_x_9, where no instruction is"));
  EXPECT_THAT(says("        /*0010*/   NOP ;\n        /*0000*/   EXIT ;\n"),
              HasSubstr("planted:4: offset 0x0 does not follow 0x10"));
  EXPECT_THAT(says(add + high), HasSubstr("planted:3: k ends with FADD"));
  EXPECT_THAT(says("  /*0000*/  @P0 EXIT ;\n  /*0010*/  NOP ;\n"), HasSubstr("planted:4: k ends with EXIT"));
  EXPECT_THAT(says("  /*0000*/  @P0 BRA 0x0 ;\n"), HasSubstr("planted:3: k ends with BRA"));
  EXPECT_EQ(says("  /*0000*/  BRA 0x0 ;\n  /*0010*/  NOP ;\n"), "read");
  EXPECT_THAT(says("  /*0008*/  EXIT ;\n"), HasSubstr("planted:3: offset 0x8 is no multiple of 16"));
  EXPECT_THAT(says(add + "                   /* 0xzz */\n" + exit), HasSubstr("planted:4: neither an instruction"));
  EXPECT_THAT(says("  /*0000*/  FADD R1, R2, R3 ;  /* 0xzz */\n" + high),
              HasSubstr("planted:3: the instruction's word"));
  EXPECT_THAT(says(add + high + "        /*0010*/  EXIT ;\n"),
              HasSubstr("planted:5: the instruction's word is missing"));
  EXPECT_THAT(says("  /*0000*/  ;\n  /*0010*/  EXIT ;\n"), HasSubstr("planted:3: an instruction without a name"));
  EXPECT_THAT(says("  /*0000*/  EXIT"), HasSubstr("planted:3: an instruction without ';'"));
  for (const char* cut : {"        /*00", "        /*0010", "        /*0010*", "                /* 0x00"})
    EXPECT_THAT(says(add + high + exit + cut), HasSubstr("planted:7: neither an instruction")) << cut;
}

TEST(SassText, RefusesEveryCutThroughAKernel) {
  const std::string whole = *read_all(data_path("tiny.nvdisasm.txt"));
  const std::size_t begin = whole.find("/*0000*/") + 8, end = whole.rfind("EXIT");  // behind it stands padding alone
  ASSERT_LT(begin + 1000, end);
  for (std::size_t size = begin; size < end; size += 7) {
    const auto read = read_bytes(whole.substr(0, size));
    ASSERT_FALSE(read.ok()) << size;
    EXPECT_THAT(read.error().message(), HasSubstr("planted:")) << size;
  }
}

TEST(SassText, ReadsEverySectionAndLifeRangesLikeCodeAlone) {
  const Program expected = program_of("tiny.nvdisasm.txt");
  for (const char* file : {"tiny.all.txt", "tiny.plr.txt"}) {
    const Program program = program_of(file);
    ASSERT_EQ(program.kernels.size(), 1u) << file;
    const auto &a = program.kernels[0].instructions, &b = expected.kernels.at(0).instructions;
    EXPECT_EQ(program.kernels[0].name, "tiny");
    ASSERT_GT(a.size(), 30u) << file;
    for (std::size_t i = a.size(); i < b.size(); ++i) EXPECT_TRUE(b[i].is("NOP")) << "-plr prints no padding";
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].mnemonic, b[i].mnemonic) << file;
      EXPECT_EQ(a[i].operands, b[i].operands) << file;
      EXPECT_EQ(a[i].target, b[i].target) << file;
      if (std::string(file) == "tiny.plr.txt") {
        EXPECT_EQ(a[i].high, b[i].high);
      }
    }
  }
  EXPECT_EQ(read_bytes(
                "\t.target\tsm_90a\n\t.section\t.debug_frame,\"\",@progbits\n.debug_frame:\n"
                "        /*0000*/ \t.byte\t0xff, 0xff\n        /*0044*/ \t.dword\tk\n"
                "\t.section\t.text.k,\"ax\"\n  /*0000*/  EXIT ;\n\t.section\t.nv.info,\"\"\n  /*0002*/ \t.short\t0x1\n")
                .value()
                .kernels.size(),
            1u);
}

TEST(SassText, PassesOverAByteOrderMarkAndNamesTextThatIsNotUtf8) {
  const std::string text = *read_all(data_path("tiny.nvdisasm.txt"));
  EXPECT_EQ(from_text("\xef\xbb\xbf" + text).kernels.at(0).instructions.size(),
            from_text(text).kernels.at(0).instructions.size());
  std::string marks;  // a call for each would not end well
  for (int i = 0; i < 20000; ++i) marks += "\xef\xbb\xbf";
  EXPECT_THAT(read_bytes(marks).error().message(), HasSubstr("neither an ELF"));
  std::string wide = "\xff\xfe";
  for (const char c : text) wide += {c, '\0'};
  EXPECT_THAT(read_bytes(wide).error().message(), HasSubstr("planted, offset 0x0: UTF-16"));
}

}  // namespace
}  // namespace pinch::sass
