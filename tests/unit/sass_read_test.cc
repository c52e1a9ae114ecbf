// Reading: control words, cubins, fatbins and disassembly text, and the refusal of what is cut or planted.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/unit/sass_support.h"
#include "workbench/sass/elf_reader.h"
#include "workbench/sass/fatbin.h"
#include "workbench/sass/line_table.h"

namespace pinch::sass {
namespace {

using test::data_path;
using test::from_text;
using test::kernel_of;
using test::program_of;
using test::read_all;
using testing::HasSubstr;

Result<Program> read_bytes(const std::string& bytes) {
  return read_program_bytes(std::make_shared<const std::string>(bytes), "planted", {});
}

std::vector<std::string> paths(const Kernel& kernel) {
  std::vector<std::string> made;
  for (const SourceFile& file : kernel.files) made.push_back(file.path());
  return made;
}

TEST(SassControl, DecodesEveryFieldOfAWord) {
  // LDG.E.128 of the softmax loop on sm_90a: 0x000ea8000c1e9d00 by hand, bits 41 and up: 0 000000 111 101 0 0100.
  const Control load = decode_control(0x000ea8000c1e9d00);
  EXPECT_EQ(
      load,
      (Control{.stall = 4, .keeps_warp = true, .write_barrier = 2, .read_barrier = 7, .wait_mask = 0, .reuse = 0}));
  EXPECT_EQ(to_string(load), "[B------:R-:W2:-:S04]");
  const Control drain = decode_control(0x000fc00000000000);
  EXPECT_EQ(to_string(drain), "[B------:R-:W-:Y:S00]");
  const Control all = decode_control(~0ull);
  EXPECT_EQ(to_string(all), "[B012345:R-:W-:-:S15]");
  EXPECT_EQ(all.reuse, 15);
}

TEST(SassCubin, ReadsResourcesOfEveryArch) {
  struct Expected {
    const char *file, *arch;
    int kernels, spill_registers, spill_frame;
  };
  for (const Expected& e :
       {Expected{"kernels.sm_80.cubin", "sm_80", 11, 32, 184}, Expected{"kernels.sm_90a.cubin", "sm_90a", 15, 32, 184},
        Expected{"kernels.sm_100a.cubin", "sm_100a", 13, 32, 200},
        Expected{"kernels.sm_103a.cubin", "sm_103a", 13, 32, 200}}) {
    const Program program = program_of(e.file);
    EXPECT_EQ(program.kernels.size(), e.kernels) << e.file;
    const Kernel& spill = kernel_of(program, "forced_spill");
    EXPECT_EQ(spill.arch, e.arch);
    EXPECT_EQ(spill.registers, e.spill_registers);
    EXPECT_EQ(spill.frame_bytes, e.spill_frame) << e.file;
    EXPECT_EQ(spill.shared_bytes, 0);
    EXPECT_EQ(kernel_of(program, "dynamic_array").frame_bytes, 128) << e.file;
    EXPECT_EQ(spill.unknown_instructions(), 0);
    EXPECT_TRUE(spill.is_entry);
    EXPECT_FALSE(spill.exits.empty());
    for (const std::uint32_t exit : spill.exits)
      EXPECT_TRUE(spill.instructions.at(exit / kInstructionBytes).is("EXIT"));
  }
}

TEST(SassCubin, ReadsStaticSharedMemoryAndBarriers) {
  // unsigned shared_words[4096] and one __syncthreads; cuobjdump -res-usage counts the driver's 1024 bytes too: 17408.
  const Program program = test::program_at(std::string(PINCH_SOURCE_DIR) + "/data/sass/h200_loops.cubin");
  EXPECT_EQ(kernel_of(program, "ffma_wide").shared_bytes, 16384);
  EXPECT_EQ(kernel_of(program, "ffma_wide").barriers, 1);
  EXPECT_EQ(kernel_of(program_of("kernels.sm_90a.cubin"), "softmax_loop").barriers, 0);
}

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

TEST(SassCubin, NamesTheSourceLinesThatADisassemblerPrints) {
  for (const auto& [text_name, cubin_name] : {std::pair("kernels.sm_90a.nvdisasm.txt", "kernels.sm_90a.cubin"),
                                              std::pair("kernels.sm_100a.nvdisasm.txt", "kernels.sm_100a.cubin"),
                                              std::pair("kernels.sm_103a.nvdisasm.txt", "kernels.sm_103a.cubin")}) {
    const Program text = program_of(text_name), cubin = program_of(cubin_name);
    int compared = 0;
    for (const Kernel& a : text.kernels) {
      const Kernel& b = kernel_of(cubin, a.name);
      EXPECT_THAT(paths(b), testing::ElementsAre("kernels.cu")) << cubin_name << " " << a.name;
      for (std::size_t i = 0; i < a.instructions.size(); ++i) {
        if (a.instructions[i].is("NOP")) continue;  // behind the end of the lines
        ASSERT_EQ(a.instructions[i].line, b.instructions[i].line) << cubin_name << " " << a.name << " " << i;
        ++compared;
      }
    }
    EXPECT_GT(compared, 900);
  }
  // Until sm_89 the relocations have no addends; the ex2 of kernels.cu is on line 24.
  const Program ampere = program_of("kernels.sm_80.cubin");
  for (const Instruction& i : kernel_of(ampere, "softmax_loop").instructions) {
    if (i.is("MUFU")) {
      EXPECT_EQ(i.line, 24u);
    }
  }
  EXPECT_EQ(program_of("heldout.sm_90a.cubin").kernels.at(0).instructions.at(0).line, 0u);  // built without -lineinfo
}

TEST(SassLines, ReadFoldersSpecialOpcodesAndUnknownOnes) {
  const auto read = [](std::string program) {
    std::string header = {1, 1, '\xfb', 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1};  // as ptxas writes it
    header += std::string("src\0", 4) + '\0';                                // folder 1
    header += std::string("k.cu\0\1\0\0", 8) + std::string("/abs.h\0\1\0\0", 10) + '\0';
    const auto word = [](std::uint32_t v) {
      return std::string{static_cast<char>(v & 0xff), static_cast<char>(v >> 8), 0, 0};
    };
    std::string unit = std::string{2, 0} + word(static_cast<std::uint32_t>(header.size())) + header;
    const std::uint64_t address_at = 4 + unit.size() + 3;
    unit += std::string{0, 9, 2} + std::string(8, '\0') + program;
    static std::string section;  // that the table has views into
    section = word(static_cast<std::uint32_t>(unit.size())) + unit;
    return read_line_table(std::as_bytes(std::span(section.data(), section.size())), {{address_at, 7}});
  };
  // advance line by 9 and copy; special 26: line +1, address +1; an extended opcode nobody knows; file 2, address +16
  // and copy; end.
  const LineTable table = read({3, 9, 1, 30, 0, 3, '\x90', 1, 2, 4, 2, 2, 16, 1, 0, 1, 1});
  ASSERT_EQ(table.files.size(), 2u);
  EXPECT_EQ(table.files[0].folder, "src");
  EXPECT_EQ(table.files[0].name, "k.cu");
  EXPECT_EQ(table.files[1].folder, "");
  const auto& rows = table.functions.at(7);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].line, 10u);
  EXPECT_EQ(rows[1].line, 11u);
  EXPECT_EQ(rows[1].offset, 1u);
  EXPECT_EQ(rows[2].offset, 17u);
  EXPECT_EQ(rows[2].file, 1u);
  EXPECT_EQ(rows[3].line, 0u);
  EXPECT_EQ(read({3, 9}).functions.size(), 0u);  // cut: no row, no crash
  EXPECT_EQ(read({3, '\x80'}).functions.size(), 0u);
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

TEST(SassRefusals, NameFileAndOffset) {
  const auto empty = read_bytes("");
  ASSERT_FALSE(empty.ok());
  EXPECT_THAT(empty.error().message(), HasSubstr("planted, offset 0x0: the file is empty"));
  const auto noise = read_bytes(std::string(4096, '\x5a'));
  ASSERT_FALSE(noise.ok());
  EXPECT_EQ(noise.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(noise.error().message(), HasSubstr("neither an ELF"));
}

TEST(SassCubin, RefusesEveryTruncation) {
  const std::string whole = *read_all(data_path("kernels.sm_90a.cubin"));
  for (std::size_t size = 1; size < whole.size(); size += 97) {
    const auto read = read_bytes(whole.substr(0, size));
    ASSERT_FALSE(read.ok()) << size;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(read.error().message(), HasSubstr("offset 0x"));
  }
}

TEST(SassCubin, RefusesSectionsThatLieOverEachOther) {
  std::string planted = *read_all(data_path("tiny.sm_90a.cubin"));
  std::uint64_t table = 0;
  std::uint16_t count = 0;
  std::memcpy(&table, planted.data() + 40, sizeof table);
  std::memcpy(&count, planted.data() + 60, sizeof count);
  std::string headers = planted.substr(table, count * std::size_t{64}), text;
  for (std::size_t at = 0; at < headers.size(); at += 64) {
    std::uint64_t flags = 0;
    std::memcpy(&flags, headers.data() + at + 8, sizeof flags);
    if ((flags & 4) != 0) text = headers.substr(at, 64);  // SHF_EXECINSTR
  }
  ASSERT_EQ(text.size(), 64u);
  constexpr std::uint16_t kSections = 60000;  // each as large as the file: gigabytes of code in four megabytes
  const std::uint64_t zero = 0, whole = planted.size() / 16 * 16, moved = planted.size();
  std::memcpy(text.data() + 24, &zero, 8);
  std::memcpy(text.data() + 32, &whole, 8);
  for (int i = count; i < kSections; ++i) headers += text;
  std::memcpy(planted.data() + 40, &moved, 8);
  std::memcpy(planted.data() + 60, &kSections, 2);
  const auto read = read_bytes(planted + headers);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(read.error().message(), HasSubstr("planted, offset 0x"));
  EXPECT_THAT(read.error().message(), HasSubstr("lies over section"));
}

TEST(SassCubin, RefusesTwoSectionsOfCodeOfOneName) {
  std::string planted = *read_all(data_path("tiny.sm_90a.cubin"));
  std::uint64_t table = 0;
  std::uint16_t count = 0;
  std::memcpy(&table, planted.data() + 40, sizeof table);
  std::memcpy(&count, planted.data() + 60, sizeof count);
  std::string headers = planted.substr(table, count * std::size_t{64}), text;
  for (std::size_t at = 0; at < headers.size(); at += 64) {
    std::uint64_t flags = 0;
    std::memcpy(&flags, headers.data() + at + 8, sizeof flags);
    if ((flags & 4) != 0) text = headers.substr(at, 64);  // SHF_EXECINSTR
  }
  ASSERT_EQ(text.size(), 64u);
  const std::uint64_t empty = 0, moved = planted.size();
  std::memcpy(text.data() + 32, &empty, 8);  // over nothing
  headers += text;
  ++count;
  std::memcpy(planted.data() + 40, &moved, 8);
  std::memcpy(planted.data() + 60, &count, 2);
  const auto read = read_bytes(planted + headers);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(read.error().message(), HasSubstr("two sections are called .text."));
}

TEST(SassCubin, NamesSourceFilesByViewsIntoTheFile) {  // a long name is held once, whatever the number of its kernels
  const auto image = read_all(data_path("kernels.sm_90a.cubin"));
  const auto kernels = read_cubin(std::as_bytes(std::span(image->data(), image->size())), "image");
  ASSERT_TRUE(kernels.ok());
  int named = 0;
  for (const Kernel& kernel : *kernels) {
    for (const SourceFile& file : kernel.files) {
      EXPECT_TRUE(file.name.data() >= image->data() && file.name.data() < image->data() + image->size());
      ++named;
    }
  }
  EXPECT_GT(named, 0);
}

TEST(SassCubin, RefusesOneLongNameForEverySymbol) {
  std::string planted = *read_all(data_path("tiny.sm_90a.cubin"));
  std::uint64_t table = 0;
  std::uint16_t count = 0;
  std::memcpy(&table, planted.data() + 40, sizeof table);
  std::memcpy(&count, planted.data() + 60, sizeof count);
  const auto move = [&](std::uint32_t type,
                        const std::string& content) {  // the first section of a type gets new content
    planted.resize((planted.size() + 15) / 16 * 16, '\0');
    for (std::uint16_t i = 0; i < count; ++i) {
      std::uint32_t found = 0;
      std::memcpy(&found, planted.data() + table + 64 * i + 4, sizeof found);
      if (found != type) continue;
      const std::uint64_t offset = planted.size(), size = content.size();
      std::memcpy(planted.data() + table + 64 * i + 24, &offset, 8);
      std::memcpy(planted.data() + table + 64 * i + 32, &size, 8);
      planted += content;
      return;
    }
  };
  constexpr std::size_t kSymbols = 4000, kSymbolBytes = 24;
  move(2, std::string(kSymbols * kSymbolBytes, '\0'));  // SHT_SYMTAB: every name at 0
  std::uint32_t strings = 0;
  for (std::uint16_t i = 0; i < count && strings == 0; ++i) {
    std::uint32_t type = 0, link = 0;
    std::memcpy(&type, planted.data() + table + 64 * i + 4, sizeof type);
    std::memcpy(&link, planted.data() + table + 64 * i + 40, sizeof link);
    if (type == 2) strings = link;
  }
  const std::uint64_t offset = planted.size(), size = 100000;
  std::memcpy(planted.data() + table + 64 * strings + 24, &offset, 8);
  std::memcpy(planted.data() + table + 64 * strings + 32, &size, 8);
  const auto read = read_bytes(planted + std::string(size, 'x'));
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message(), HasSubstr("symbol names are longer"));
}

TEST(SassCubin, ReadsSectionHeadersAtAnOddAddress) {
  std::string moved = *read_all(data_path("kernels.sm_90a.cubin"));
  std::uint64_t table = 0;
  std::uint16_t count = 0;
  std::memcpy(&table, moved.data() + 40, sizeof table);
  std::memcpy(&count, moved.data() + 60, sizeof count);
  const std::string headers = moved.substr(table, count * std::size_t{64});
  moved.resize((moved.size() + 7) / 8 * 8 + 3, '\0');
  const std::uint64_t odd = moved.size();
  std::memcpy(moved.data() + 40, &odd, sizeof odd);
  const auto read = read_bytes(moved + headers);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->kernels.size(), 15u);
}

TEST(SassCubin, SurvivesEveryHeaderByteChanged) {
  const std::string whole = *read_all(data_path("kernels.sm_80.cubin"));
  std::uint64_t table = 0;
  std::memcpy(&table, whole.data() + 40, sizeof table);
  int refused = 0;
  for (std::size_t at = 16; at < whole.size(); at = at + 1 == 64 ? table : at + 1) {
    std::string planted = whole;
    planted[at] = static_cast<char>(planted[at] ^ 0xff);
    const auto read = read_bytes(planted);  // no crash and no wild allocation; a changed name or flag may still read
    if (read.ok()) continue;
    ++refused;
    EXPECT_THAT(read.error().message(), HasSubstr("planted")) << at;
  }
  EXPECT_GT(refused, 500);  // sizes and offsets of 49 section headers lead outside
}

TEST(SassContainers, HoldTheSameCodeHoweverItIsPacked) {
  // none, LZ4 and Zstandard as nvcc writes them, and an object of the host compiler around the default.
  const char* files[] = {"scale.none.fatbin", "scale.speed.fatbin", "scale.size.fatbin", "scale.host"};
  const Program expected = program_of(files[0]);
  ASSERT_EQ(expected.kernels.size(), 1u);
  EXPECT_EQ(expected.kernels[0].name, "scale");
  EXPECT_EQ(expected.kernels[0].arch, "sm_90a");
  EXPECT_EQ(analyse_flow(expected.kernels[0]).loops.size(), 1u);
  for (const char* file : files) {
    const Program program = program_of(file);
    ASSERT_EQ(program.kernels.size(), 1u) << file;
    const auto &a = program.kernels[0].instructions, &b = expected.kernels[0].instructions;
    ASSERT_EQ(a.size(), b.size()) << file;
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].low == b[i].low && a[i].high == b[i].high, true) << file;
    ASSERT_EQ(program.ptx.size(), 1u) << file;
    EXPECT_EQ(program.ptx[0].arch, "sm_90a") << file;
    EXPECT_EQ(*program.ptx[0].text, *expected.ptx[0].text) << file;
  }
}

TEST(SassContainers, RefuseEveryTruncationAndSurviveEveryByteChanged) {
  for (const char* file : {"scale.none.fatbin", "scale.speed.fatbin", "scale.size.fatbin", "scale.host"}) {
    const std::string whole = *read_all(data_path(file));
    for (std::size_t size = 0; size < whole.size(); size += 61) {
      EXPECT_FALSE(read_bytes(whole.substr(0, size)).ok()) << file << " " << size;
    }
    for (std::size_t at = 0; at < whole.size(); at += 3) {
      std::string planted = whole;
      planted[at] = static_cast<char>(planted[at] ^ 0xff);
      const auto read = read_bytes(planted);  // text and code may differ; nothing may crash
      if (!read.ok()) {
        EXPECT_THAT(read.error().message(), HasSubstr("planted")) << file << " " << at;
      }
    }
  }
}

TEST(SassFatbin, ReadsEntriesAndRefusesPlantedSizes) {
  // A container of one PTX entry, uncompressed: header of 16 bytes, entry header of 64.
  const std::string ptx = ".version 9.0\n.target sm_90a\n.address_size 64\n";
  std::string bytes(16 + 64, '\0');
  const auto put = [&](std::size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
  put(0, kFatbinMagic);
  put(4, std::uint16_t{1});
  put(6, std::uint16_t{16});
  put(8, std::uint64_t{64 + ptx.size()});
  put(16, std::uint16_t{1});
  put(20, std::uint32_t{64});
  put(24, std::uint64_t{ptx.size()});
  const auto read = [](const std::string& b) {
    return read_fatbins(std::as_bytes(std::span(b.data(), b.size())), "planted");
  };
  const auto good = read(bytes + ptx);
  ASSERT_TRUE(good.ok()) << good.error().message();
  ASSERT_EQ(good->size(), 1u);
  EXPECT_EQ(*good->front().data, ptx);
  const std::string code = ptx + ".visible .entry k()\n{\n\tret;\n}\n";
  put(8, std::uint64_t{64 + code.size()});
  put(24, std::uint64_t{code.size()});
  const auto only_ptx = read_bytes(bytes + code);
  ASSERT_FALSE(only_ptx.ok());
  EXPECT_THAT(only_ptx.error().message(), HasSubstr("PTX for sm_90a and no machine code"));
  put(8, std::uint64_t{64 + ptx.size()});
  put(24, std::uint64_t{1} << 60);
  EXPECT_THAT(read(bytes + ptx).error().message(), HasSubstr("offset 0x10 of the fatbin"));
  put(24, std::uint64_t{ptx.size()});
  put(40 + 16, std::uint64_t{0x8000});   // says zstd
  put(32, std::uint32_t{8});             // of 8 bytes
  put(56 + 16, std::uint64_t{1} << 40);  // that become a terabyte
  EXPECT_THAT(read(bytes + ptx).error().message(), HasSubstr("claims 1099511627776"));
}

}  // namespace
}  // namespace pinch::sass
