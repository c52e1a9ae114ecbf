// The way round a loop whose products stand behind branches.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/sass_support.h"

namespace pinch::sass {
namespace {

using test::from_text;
using test::program_of;
using test::report_of;
using ::testing::ElementsAre;

constexpr const char* kProduct = "HMMA.16816.F32.BF16 R4, R8, R10, R4";

// Lines of "LABEL:" or of an instruction.
Program kernel_with(const std::vector<std::string>& lines) {
  std::string text = "\t.target\tsm_90a\n\t.section\t.text.branching,\"ax\"\n";
  int offset = 0;
  for (const std::string& line : lines) {
    text += line.ends_with(':') ? line + "\n" : fmt::format("        /*{:04x}*/   {} ;\n", offset, line);
    if (!line.ends_with(':')) offset += kInstructionBytes;
  }
  return from_text(text);
}

// Of the outermost loop: the numbers of the instructions that are counted.
std::vector<int> path_of(const std::vector<std::string>& lines, bool branches) {
  const Program program = kernel_with(lines);
  const KernelReport report = report_of(program, "branching");
  if (report.loops.empty()) return {};
  EXPECT_EQ(report.loops.front().branches, branches);
  return report.loops.front().path;
}

TEST(SassPath, TakesTheBranchThatMultipliesMost) {
  EXPECT_THAT(path_of({".L_x_0:", "@P0 BRA `(.L_x_1)",                                 // 0
                       "FADD R1, R1, R1", kProduct, "BRA `(.L_x_2)",                   // 1 to 3
                       ".L_x_1:", kProduct, kProduct, ".L_x_2:", "@P1 BRA `(.L_x_0)",  // 4 to 6
                       "EXIT"},
                      true),
              ElementsAre(0, 4, 5, 6));
}

TEST(SassPath, LeavesOutWhatDoesNotMultiply) {
  EXPECT_THAT(path_of({".L_x_0:", "@P0 BRA `(.L_x_1)", kProduct, ".L_x_1:", "@P1 BRA `(.L_x_2)",  // 0 to 2
                       "FADD R1, R1, R1", ".L_x_2:", "@P2 BRA `(.L_x_0)", "EXIT"},                // 3, 4
                      true),
              ElementsAre(0, 1, 2, 4));
}

TEST(SassPath, FollowsCodeThatStandsElsewhereInItsOrder) {
  EXPECT_THAT(path_of({"BRA `(.L_x_1)",                       // 0
                       ".L_x_0:", kProduct, "BRA `(.L_x_2)",  // 1, 2: behind what it follows
                       ".L_x_1:", "@P0 BRA `(.L_x_0)", ".L_x_2:", "@P1 BRA `(.L_x_1)", "EXIT"},  // 3, 4
                      true),
              ElementsAre(3, 1, 2, 4));
}

TEST(SassPath, GoesThroughAnInnerLoopOnce) {
  EXPECT_THAT(path_of({".L_x_0:", "FADD R1, R1, R1", ".L_x_1:", "FADD R2, R2, R2", "@P0 BRA `(.L_x_1)",  // 0 to 2
                       "@P1 BRA `(.L_x_2)", kProduct, ".L_x_2:", "@P2 BRA `(.L_x_0)", "EXIT"},           // 3 to 5
                      true),
              ElementsAre(0, 1, 2, 3, 4, 5));
}

// A product that every iteration executes needs no choice, and one that only an inner loop has is the inner loop's.
TEST(SassPath, ChangesNoLoopThatHasItsProductsOnItsPath) {
  EXPECT_THAT(
      path_of({".L_x_0:", kProduct, "@P0 BRA `(.L_x_1)", kProduct, ".L_x_1:", "@P1 BRA `(.L_x_0)", "EXIT"}, false),
      ElementsAre(0, 1, 3));
  EXPECT_THAT(path_of({".L_x_0:", "@P0 BRA `(.L_x_2)", ".L_x_1:", kProduct, "@P1 BRA `(.L_x_1)",
                       ".L_x_2:", "@P2 BRA `(.L_x_0)", "EXIT"},
                      false),
              ElementsAre(0, 3));
}

TEST(SassPath, CountsBothSlotsOfACompiledLoopAndNotTheEndOfARow) {
  const Program program = program_of("branches.sm_90a.cubin");
  const KernelReport report = report_of(program, "guarded_products");
  ASSERT_EQ(report.loops.size(), 1u);
  const LoopReport& loop = report.loops.front();
  EXPECT_TRUE(loop.branches);
  EXPECT_EQ(loop.mix.at("HMMA"), 128);
  EXPECT_EQ(loop.mix.count("REDG"), 0u) << "a row's end";
  EXPECT_GE(loop.simulated_cycles.value(), loop.least_cycles());
  const auto& code = test::kernel_of(program, "guarded_products").instructions;
  const auto all = std::count_if(code.begin(), code.end(), [](const Instruction& i) { return i.is("REDG"); });
  EXPECT_EQ(all, 16) << "are in the loop and are left out";
}

}  // namespace
}  // namespace pinch::sass
