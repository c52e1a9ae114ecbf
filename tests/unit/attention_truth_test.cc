// Recorded times of attention: how they are read, and the default against them.
#include "workbench/calibrate/attention_truth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "kernels/attention/sm90/family.h"
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

// Every default against the fastest tactic recorded on an H200; the lengths 2048 and 8192 were not fitted.
TEST(AttentionTruth, DefaultsAreCloseToTheFastestRecorded) {
  const auto rows = read_attention_times(PINCH_SOURCE_DIR "/data/h200/attention/times.csv");
  ASSERT_TRUE(rows.ok()) << rows.error().message();
  const AttentionTacticFamily& family = sm90_attention_family();
  double log_sum = 0;
  int problems = 0;
  for (const auto& group : by_problem(*rows)) {
    const AttentionProblem& p = group.front()->problem;
    if (p.seq != 2048 && p.seq != 8192) continue;
    const auto pick = default_tactic(family, p, Resources{132, 0});
    ASSERT_TRUE(pick.ok());
    const auto found =
        std::find_if(group.begin(), group.end(), [&](const AttentionTime* row) { return row->tactic == pick->index; });
    ASSERT_NE(found, group.end()) << family.to_string(pick->index) << " was not recorded at " << p.seq;
    double best = (*found)->ns;
    for (const AttentionTime* row : group) best = std::min(best, row->ns);
    const double regret = (*found)->ns / best;
    EXPECT_LE(regret, 1.05) << family.to_string(pick->index) << " at " << p.seq << (p.causal ? " causal" : "");
    log_sum += std::log(regret);
    ++problems;
  }
  EXPECT_GE(problems, 16);
  EXPECT_LE(std::exp(log_sum / problems), 1.02);
}

// The default of the published shape, b = 4, h = 16, d = 128.
TEST(AttentionTruth, PicksArePinned) {
  const auto pick = [](std::int64_t seq, bool causal, PvType pv, QkType qk) {
    const AttentionProblem p{4, 16, 16, seq, seq, 128, causal, pv, qk, OutputType::kBf16};
    return sm90_attention_family().to_string(
        default_tactic(sm90_attention_family(), p, Resources{132, 0}).value().index);
  };
  for (const std::int64_t seq : {4096, 8192}) {
    for (const bool causal : {false, true}) {
      EXPECT_EQ(pick(seq, causal, PvType::kBf16, QkType::kBf16),
                seq == 8192 && !causal
                    ? "q128/kv144/stages2/hardware/linear/split1of1/chunks1/threshold0/dynamic/heads0"
                    : "q128/kv128/stages2/hardware/linear/split7of8/chunks8/threshold0/dynamic/heads0");
      EXPECT_EQ(pick(seq, causal, PvType::kFp8, QkType::kBf16),
                "q128/kv128/stages2/hardware/linear/split1of1/chunks1/threshold0/dynamic/heads0");
      EXPECT_EQ(pick(seq, causal, PvType::kFp8, QkType::kFp8),
                "q128/kv128/stages2/hardware/linear/split1of1/chunks1/threshold0/dynamic/heads0");
      EXPECT_EQ(pick(seq, causal, PvType::kFp4, QkType::kBf16),
                "q128/kv128/stages2/hardware/log/split1of1/chunks1/threshold0/dynamic/heads0");
    }
  }
}

}  // namespace
}  // namespace pinch::calibrate
