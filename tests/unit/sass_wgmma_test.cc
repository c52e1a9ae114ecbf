// What waiting for every product costs, beside what hides the wait and what needs it.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/sass_support.h"

namespace pinch::sass {
namespace {

using test::report_of;

TEST(SassLints, ChargeNoWaitThatOtherWorkHides) {
  constexpr Control kChained{.stall = 4, .keeps_warp = true};
  const auto saves = [&](int multiplies, bool wraps) {
    std::vector<test::Line> body = {{test::kNext, "WARPGROUP.ARRIVE"},
                                    {test::kNext, "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24, gsb0"},
                                    {test::kNext, "WARPGROUP.DEPBAR.LE gsb0, 0x0"}};
    if (wraps) std::rotate(body.begin(), body.end() - 1, body.end());
    for (int i = 0; i < multiplies; ++i)
      body.insert(wraps ? body.end() : body.end() - 1, test::Line{kChained, "FFMA R2, R2, R2, R2"});
    const Program program = test::loop_of(body);
    const KernelReport report = report_of(program, "loop");
    for (const Lint& lint : report.loops.at(0).lints) {
      if (lint.id == "wgmma-serialised") return lint.saves_cycles;
    }
    return 0.0;
  };
  // The product takes 128 cycles and 62 more until it is waited for; behind it are the FFMA, of 4 cycles each.
  for (const bool wraps : {false, true}) {
    const int loop = wraps ? 1 : 0;  // the branch
    EXPECT_EQ(saves(0, wraps), 62);
    EXPECT_EQ(saves(30, wraps), 62);
    EXPECT_EQ(saves(40, wraps), 128 + 62 - (1 + 40 * 4 + loop));
    EXPECT_EQ(saves(200, wraps), 0);
  }
}

// What scales the sums stands between two products in any order: of the wait its latency cannot be saved.
TEST(SassLints, ChargeNoLatencyThatTheSumsNeed) {
  const auto saves = [](const char* sum) {
    std::vector<test::Line> body = {{test::kNext, "WARPGROUP.ARRIVE"},
                                    {test::kNext, "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24, gsb0"},
                                    {test::kNext, "WARPGROUP.DEPBAR.LE gsb0, 0x0"}};
    for (int i = 0; i < 8; ++i)
      body.push_back({{.stall = 4, .keeps_warp = true}, fmt::format("FMUL {}, {}, R2", sum, sum)});
    const Program program = test::loop_of(body);
    const KernelReport report = report_of(program, "loop");
    double saved = 0;
    for (const Lint& lint : report.loops.at(0).lints) saved += lint.id == "wgmma-serialised" ? lint.saves_cycles : 0;
    return saved;
  };
  constexpr double kWait = 62, kLatency = 32, kIssue = 3;  // of the fence, the wait and the branch
  EXPECT_EQ(saves("R3"), kWait) << "another chain runs beside the product";
  EXPECT_EQ(saves("R24"), kWait - kLatency + kIssue) << "the next product reads what is scaled";
}

}  // namespace
}  // namespace pinch::sass
