#include "pinch/study.h"

#include <gmock/gmock.h>

#include <cmath>

#include "src/tactics/sm100.h"

namespace pinch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kHead =
    "# pinch-truth: 1\n# family: sm100\n# sms: 148\n# machine: a test\n# source: made by hand\n# method: none\n"
    "m,n,k,format,output,tactic,verdict,median_ns\n";

// At m 2048 n 4096 the rule takes 128x128, waves 256x192, first 128x8.
const std::string kRows =
    "2048,4096,4096,nvfp4,bf16,128x128x256-c1x1-rn,ok,100\n"
    "2048,4096,4096,nvfp4,bf16,256x192x256-c2x1-rn,ok,121\n"
    "2048,4096,4096,nvfp4,bf16,128x8x256-c1x1-rm,ok,1000\n"
    "1,4096,4096,nvfp4,bf16,128x8x256-c1x1-rn,ok,20\n"
    "1,4096,4096,nvfp4,bf16,128x8x256-c1x1-rm,ok,16\n";

Study study(const std::string& csv, std::string_view model = "pr") {
  const auto truth = parse_truth(csv, "truth.csv");
  EXPECT_TRUE(truth.ok()) << truth.error().message();
  const auto result = study_model(sm100_family(), *truth, model);
  EXPECT_TRUE(result.ok());
  return *result;
}

std::string refusal(const std::string& csv) {
  const auto truth = parse_truth(csv, "truth.csv");
  EXPECT_FALSE(truth.ok()) << csv;
  if (truth.ok()) return {};
  EXPECT_EQ(truth.error().code, ErrorCode::kCorrupt);
  return truth.error().message();
}

TEST(Study, ComputesTheRegretOfEachPick) {
  const Study result = study(kHead + kRows);
  EXPECT_EQ(result.model, "pr");
  ASSERT_EQ(result.problems.size(), 2u);
  EXPECT_EQ(result.problems[0].pick, "128x128x256-c1x1-rn");
  EXPECT_EQ(result.problems[0].regret, 1.0);
  EXPECT_EQ(result.problems[1].pick, "128x8x256-c1x1-rn");
  EXPECT_EQ(result.problems[1].best, "128x8x256-c1x1-rm");
  EXPECT_EQ(result.problems[1].regret, 1.25);
  EXPECT_DOUBLE_EQ(*result.geomean, std::sqrt(1.25));
  EXPECT_EQ(result.worst, 1.25);
  EXPECT_EQ(result.worst_problem->m, 1);
  EXPECT_FALSE(result.median_abs_error);  // the rule predicts no time
  EXPECT_THAT(result.unmeasured_picks, IsEmpty());
}

TEST(Study, ComparesTheModels) {
  EXPECT_DOUBLE_EQ(*study(kHead + kRows, "waves").worst, 1.25);
  EXPECT_EQ(study(kHead + kRows, "waves").problems[0].regret, 1.21);
  EXPECT_EQ(study(kHead + kRows, "first").problems[0].regret, 10.0);
  EXPECT_EQ(study(kHead + kRows, "first").problems[1].regret, 1.0);
}

TEST(Study, NamesPicksWithoutATimeAndLeavesThemOut) {
  const Study result = study(kHead + kRows +
                             "512,6656,4096,nvfp4,bf16,128x64x256-c1x1-rn,hopeless,\n"
                             "512,6656,4096,nvfp4,bf16,128x128x256-c1x1-rn,ok,50\n");
  EXPECT_THAT(result.unmeasured_picks, ElementsAre("128x64x256-c1x1-rn"));
  EXPECT_FALSE(result.problems[2].regret);
  EXPECT_EQ(result.problems[2].best_ns, 50);
  EXPECT_DOUBLE_EQ(*result.geomean, std::sqrt(1.25));
}

TEST(Study, NamesTacticsOfAnotherBuild) {
  const Study result = study(kHead + kRows + "1,4096,4096,nvfp4,bf16,64x8x256-c1x1-rn,ok,10\n");
  EXPECT_THAT(result.unknown_tactics, ElementsAre("64x8x256-c1x1-rn"));
  EXPECT_EQ(result.problems[1].best, "64x8x256-c1x1-rn");  // still the best that was measured
  EXPECT_EQ(result.problems[1].regret, 2.0);
}

TEST(Study, RefusesWhatItCannotCompare) {
  const auto of = [](const std::string& csv, std::string_view model = "pr") {
    return study_model(sm100_family(), parse_truth(csv, "t").value(), model).error().message();
  };
  std::string other = kHead + kRows;
  other.replace(other.find("sm100"), 5, "sm120");
  EXPECT_THAT(of(other), HasSubstr("sm120"));
  EXPECT_THAT(of(kHead + kRows, "wave"), HasSubstr("did you mean waves"));
  EXPECT_THAT(of(kHead + "1,8,32,nvfp4,bf16,128x8x256-c1x1-rm,hopeless,\n"),
              HasSubstr("m 1 n 8 k 32: no tactic was timed"));
  EXPECT_THAT(of(kHead + "1,8,32,nvfp4,bf16,other,ok,1\n"), HasSubstr("no tactic of this build"));
}

TEST(Truth, WritesWhatItReads) {
  const std::string csv = kHead + kRows + "1,8,32,mxfp4,f32,128x8x256-c1x1-rm,hopeless,\n";
  EXPECT_EQ(to_csv(parse_truth(csv, "t").value()), csv);
}

TEST(Truth, RefusesBrokenFilesByLine) {
  EXPECT_THAT(refusal(""), HasSubstr("no '# pinch-truth: 1'"));
  EXPECT_THAT(refusal("# pinch-truth: 2\n"), HasSubstr("truth.csv:1: version 2"));
  EXPECT_THAT(refusal("# hello\n"), HasSubstr("not '# key: value'"));
  EXPECT_THAT(refusal(kHead), HasSubstr("no rows"));
  for (const std::string key : {"machine", "source", "method", "family", "sms"}) {
    std::string head = kHead;
    head.erase(head.find("# " + key), head.find('\n', head.find("# " + key)) - head.find("# " + key));
    EXPECT_THAT(refusal(head + kRows), HasSubstr("'# " + key));
  }
  const auto row = [](const std::string& text) { return refusal(kHead + text + "\n"); };
  EXPECT_THAT(row("1,8,32,nvfp4,bf16,a,ok"), HasSubstr("truth.csv:8: 7 cells"));
  EXPECT_THAT(row("x,8,32,nvfp4,bf16,a,ok,1"), HasSubstr("'x' is not a size"));
  EXPECT_THAT(row("0,8,32,nvfp4,bf16,a,ok,1"), HasSubstr("m is 0"));
  EXPECT_THAT(row("1,8,32,fp4,bf16,a,ok,1"), HasSubstr("unknown format 'fp4'"));
  EXPECT_THAT(row("1,8,32,nvfp4,f16,a,ok,1"), HasSubstr("unknown output 'f16'"));
  EXPECT_THAT(row("1,8,32,nvfp4,bf16,,ok,1"), HasSubstr("a tactic and a verdict"));
  EXPECT_THAT(row("1,8,32,nvfp4,bf16,a,ok,"), HasSubstr("verdict ok without a median_ns"));
  EXPECT_THAT(row("1,8,32,nvfp4,bf16,a,hopeless,3"), HasSubstr("verdict hopeless with a median_ns"));
  for (const std::string time : {"0", "-1", "nan", "inf", "1x"}) {
    EXPECT_THAT(row("1,8,32,nvfp4,bf16,a,ok," + time), HasSubstr("median_ns is '" + time + "'"));
  }
  EXPECT_THAT(row("1,8,32,nvfp4,bf16,a,ok,1\n1,8,32,nvfp4,bf16,a,ok,1"), HasSubstr("truth.csv:9: a is listed twice"));
  std::string columns = kHead;
  columns.replace(columns.find("m,n,k"), 5, "n,m,k");
  EXPECT_THAT(refusal(columns), HasSubstr("truth.csv:7: columns"));
}

}  // namespace
}  // namespace pinch
