// Reading: control words, cubins and fatbins, and the refusal of what is cut or planted.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/unit/sass_support.h"
#include "workbench/sass/elf_reader.h"
#include "workbench/sass/fatbin.h"
#include "workbench/sass/line_table.h"

namespace pinch::sass {
namespace {

using test::data_path;
using test::kernel_of;
using test::paths;
using test::program_of;
using test::read_all;
using test::read_bytes;
using testing::HasSubstr;

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

TEST(SassCubin, ReadsTheHeaderOfCuda12) {
  struct Expected {
    const char *file, *arch;
    int registers;  // cuobjdump -res-usage
  };
  for (const auto& [file, arch, registers] : {Expected{"tiny.cuda12.sm_80.cubin", "sm_80", 8},
                                              {"tiny.cuda12.sm_90.cubin", "sm_90", 12},
                                              {"tiny.cuda12.sm_90a.cubin", "sm_90a", 12}}) {
    const Program program = program_of(file);
    const Kernel& kernel = kernel_of(program, "tiny");
    EXPECT_EQ(kernel.arch, arch);
    EXPECT_EQ(kernel.registers, registers) << file;
    EXPECT_EQ(kernel.frame_bytes, 0) << file;
    EXPECT_EQ(kernel.unknown_instructions(), 0) << file;
    ASSERT_EQ(kernel.exits.size(), 1u) << file;
    EXPECT_TRUE(kernel.instructions.at(kernel.exits[0] / kInstructionBytes).is("EXIT")) << file;
    EXPECT_EQ(analyse_flow(kernel).loops.size(), 1u) << file;  // and the trap at the end, which nothing reaches
  }
}

TEST(SassCubin, ReadsStaticSharedMemoryAndBarriers) {
  // unsigned shared_words[4096] and one __syncthreads; cuobjdump -res-usage counts the driver's 1024 bytes too: 17408.
  const Program program = test::program_at(std::string(PINCH_SOURCE_DIR) + "/data/sass/h200_loops.cubin");
  EXPECT_EQ(kernel_of(program, "ffma_wide").shared_bytes, 16384);
  EXPECT_EQ(kernel_of(program, "ffma_wide").barriers, 1);
  EXPECT_EQ(kernel_of(program_of("kernels.sm_90a.cubin"), "softmax_loop").barriers, 0);
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

TEST(SassContainers, HoldPtxOnceHoweverOftenItIsStored) {
  const std::string one = *read_all(data_path("scale.none.fatbin"));
  std::string other = one;
  const auto constant = other.find("mul");
  ASSERT_NE(constant, std::string::npos);
  other[constant] = 'M';
  const auto repeated = read_bytes(one + one + one), changed = read_bytes(one + other + one);
  ASSERT_TRUE(repeated.ok() && changed.ok());
  EXPECT_EQ(repeated->kernels.size(), 3u);
  EXPECT_EQ(repeated->ptx.size(), 1u);
  EXPECT_EQ(changed->ptx.size(), 2u);
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
