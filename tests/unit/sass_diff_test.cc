// Two builds compared: what each kind of change is called.
#include <gmock/gmock.h>

#include <fmt/core.h>

#include <algorithm>

#include "tests/unit/sass_support.h"
#include "workbench/sass/diff.h"

namespace pinch::sass {
namespace {

using test::program_of;
using testing::HasSubstr;
using testing::Not;

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
  std::swap(named("dequant_loop").instructions[3], named("dequant_loop").instructions[4]);
  named("hmma_loop").instructions[5].high ^= std::uint64_t{1} << 41;  // a stall count
  named("poly_rolled").instructions[2].mnemonic = "FADD";
  named("poly_rolled").instructions[2].low ^= 1;
  named("exp_denormal").name = "renamed";
  after.kernels.erase(std::find_if(after.kernels.begin(), after.kernels.end(),
                                   [](const Kernel& k) { return k.name == "scalar_loads"; }));
  const auto a = reports_of(before), b = reports_of(after);
  const ProgramDiff result = diff(a, b).value();
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
  const ProgramDiff result = diff(a, b).value();
  for (const KernelPair& pair : result.kernels) EXPECT_EQ(pair.verdict, Verdict::kSame) << pair.a->kernel->name;
  EXPECT_THAT(to_json(result, {}).at("kernels").at(0).at("registers").dump(), HasSubstr(",null]"));
  EXPECT_THAT(to_text(result, {}), HasSubstr(" -> ?"));
  EXPECT_THAT(to_text(result, {}), Not(HasSubstr("-1")));
}

TEST(SassDiff, NeverComparesAcrossArchs) {
  const Program hopper = program_of("kernels.sm_90a.cubin"), blackwell = program_of("kernels.sm_100a.cubin");
  const auto a = reports_of(hopper), b = reports_of(blackwell);
  EXPECT_TRUE(diff(a, b)->kernels.empty());
}

TEST(SassDiff, CallsABinaryAndItsDisassemblyTheSame) {
  for (const auto& [text, cubin] : {std::pair("kernels.sm_90a.nvdisasm.txt", "kernels.sm_90a.cubin"),
                                    {"kernels.sm_80.cuobjdump.txt", "kernels.sm_80.cubin"}}) {
    const Program printed = program_of(text), binary = program_of(cubin);
    const auto a = reports_of(binary), b = reports_of(printed);
    const ProgramDiff result = diff(a, b).value();
    EXPECT_EQ(result.kernels.size(), binary.kernels.size());
    for (const KernelPair& pair : result.kernels) EXPECT_EQ(pair.verdict, Verdict::kSame) << pair.a->kernel->name;
    const auto kernels = to_json(result, {}).at("kernels");
    for (const auto& kernel : kernels) EXPECT_EQ(kernel.at("mix").size(), 0u) << kernel.at("name");
  }
}

// Text without words: labels, and rows of an instruction each, of which branches go to `place`.
std::string text_of(const std::vector<std::string>& rows, const std::string& place) {
  std::string text = "\t.target\tsm_90a\n\t.section\t.text.k,\"ax\"\n";
  int offset = 0;
  for (const std::string& row : rows) {
    if (row.back() == ':') {
      text += row + "\n";
    } else {
      text += fmt::format("  /*{:04x}*/  {}{} ;\n", offset, row, row.find("BRA") != std::string::npos ? place : "");
      offset += kInstructionBytes;
    }
  }
  return text;
}

TEST(SassDiff, ComparesWhereBranchesGoAndNotHowTheirPlacesAreNamed) {
  const auto verdict = [](const std::string& before, const std::string& after) {
    const Program x = test::from_text(before), y = test::from_text(after);
    const auto a = reports_of(x), b = reports_of(y);
    return diff(a, b)->kernels.at(0).verdict;
  };
  const std::string mov = "MOV R1, R2", add = "FADD R3, R3, R4", exit = "EXIT", label = ".L_x_0:";
  for (const char* branch : {"@P0 BRA ", "BRA !P0, "}) {
    const std::string at_0 = text_of({label, mov, add, branch, exit}, "`(.L_x_0)"),
                      at_1 = text_of({mov, label, add, branch, exit}, "`(.L_x_0)");
    EXPECT_NE(verdict(at_0, at_1), Verdict::kSame) << branch;
    EXPECT_EQ(verdict(at_0, text_of({".L_x_7:", mov, add, branch, exit}, "`(.L_x_7)")), Verdict::kSame) << branch;
    EXPECT_EQ(verdict(at_0, text_of({mov, add, branch, exit}, "0x0")), Verdict::kSame) << branch;
    EXPECT_NE(verdict(at_0, text_of({mov, add, branch, exit}, "0x10")), Verdict::kSame) << branch;
  }
  EXPECT_NE(verdict(text_of({label, mov, "BRA !P0, ", exit}, "`(.L_x_0)"),
                    text_of({label, mov, "BRA P0, ", exit}, "`(.L_x_0)")),
            Verdict::kSame);
}

TEST(SassDiff, RefusesNamesOfTwoRoadsWhereWordsDoNotSettleIt) {
  const Program binary = program_of("kernels.sm_100a.cubin"), without_words = program_of("kernels.sm_100a.nohex.txt");
  const auto a = reports_of(binary), b = reports_of(without_words);
  const auto refused = diff(a, b);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("opcode map"));
  EXPECT_TRUE(diff(b, b).ok());
  Program changed = program_of("kernels.sm_90a.nvdisasm.txt");
  changed.kernels.at(0).instructions.at(0).low ^= 1;
  const Program hopper = program_of("kernels.sm_90a.cubin");
  const auto c = reports_of(hopper), d = reports_of(changed);
  ASSERT_FALSE(diff(c, d).ok());
  EXPECT_EQ(diff(c, d).error().where, changed.kernels.at(0).name);
}

}  // namespace
}  // namespace pinch::sass
