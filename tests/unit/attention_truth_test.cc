// Recorded times of attention: how they are read.
#include "workbench/calibrate/attention_truth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "kernels/attention/sm90/tactics.h"
#include "tests/support/temp_folder.h"

namespace pinch::calibrate {
namespace {

using testing::HasSubstr;

constexpr const char* kTitle = "batch,heads,seq,dim,causal,qk,pv,part,tactic,tflops,median_us,samples_us\n";

Result<std::vector<AttentionTime>> read(const std::string& text) {
  const TempFolder folder;
  std::ofstream(folder / "times.csv") << text;
  return read_attention_times(folder / "times.csv");
}

TEST(AttentionTruth, WholeCallsOfListedTacticsAreRead) {
  const std::string tactic = attention::sm90::to_string(attention::sm90::tactics()[1]);
  const auto rows =
      read(kTitle + ("4,16,1024,128,1,bf16,bf16,attend," + tactic + ",500.1,68.5,\"68.4;68.5;68.6\"\n") +
           "4,16,1024,128,1,bf16,bf16,attend,no/such/tactic,1,1,\"1\"\n" + "4,16,2048,128,0,bf16,fp8,attend," + tactic +
           ",1,10,\"10\"\n" + "4,16,2048,128,0,bf16,fp8,both," + tactic + ",1,20,\"20\"\n");
  ASSERT_TRUE(rows.ok()) << rows.error().message();
  ASSERT_EQ(rows->size(), 2U) << "the part of a call and the unknown tactic are left out";
  const AttentionProblem first{4, 16, 16, 1024, 1024, 128, true, PvType::kBf16, QkType::kBf16, OutputType::kBf16};
  EXPECT_EQ((*rows)[0].problem, first);
  EXPECT_EQ((*rows)[0].tactic, 1U);
  EXPECT_DOUBLE_EQ((*rows)[0].ns, 68500);
  EXPECT_EQ((*rows)[1].problem.pv, PvType::kFp8);
  EXPECT_DOUBLE_EQ((*rows)[1].ns, 20000);
  const auto groups = by_problem(*rows);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[1].front(), &(*rows)[1]);
}

TEST(AttentionTruth, DamagedFilesAreNamed) {
  EXPECT_EQ(read_attention_times("/no/such/file").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(read("m,n,k\n").error().text, HasSubstr("first line"));
  for (const char* line : {"4,16,1024\n", "4,16,1024,96,1,bf16,bf16,attend,x,1,1,\"1\"\n",
                           "4,16,1024,128,1,bf16,bf16,attend,x,1,zero,\"1\"\n"}) {
    const auto rows = read(kTitle + std::string(line));
    ASSERT_FALSE(rows.ok()) << line;
    EXPECT_EQ(rows.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(rows.error().text, HasSubstr("line 2"));
  }
}

}  // namespace
}  // namespace pinch::calibrate
