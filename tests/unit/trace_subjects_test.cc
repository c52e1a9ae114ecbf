#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/traced/traced.h"
#include "kernels/gemm_bf16_fp4/traced/traced.h"
#include "tests/support/temp_folder.h"
#include "workbench/ladder/gemm_inputs.h"
#include "workbench/ladder/gemm_target.h"
#include "workbench/trace/analysis.h"
#include "workbench/trace/cuda_kernels.h"
#include "workbench/trace/subjects.h"

namespace pinch::trace {
namespace {

using pinch::detail::TracedGemm;

constexpr std::int64_t kN = 160, kK = 384;

Fp4Matrix weights() {
  auto made = ladder::random_weights(Fp4Format::kNvfp4, kN, kK, 3);
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

TEST(TracedGemm, EveryInstanceGivesTheSameBits) {
  const Fp4Matrix b = weights();
  for (const char* tactic : {"stream.scalar.4x16.along_m.all", "panel.scalar.4x16.k256.along_m.all"}) {
    constexpr std::int64_t kM = 37;
    auto gemm = TracedGemm::create(b.view(), kM, {tactic, 2, OutputType::kF32});
    ASSERT_TRUE(gemm.ok()) << gemm.error().message();
    EXPECT_EQ(gemm->tactic(), tactic);
    const std::vector<Bf16> a = ladder::random_activations(kM * kK, 5);
    std::vector<float> untraced(kM * kN), traced(kM * kN);
    gemm->run(Level::kOff, a.data(), untraced.data());
    for (const Level level : {Level::kCoarse, Level::kDetailed}) {
      std::fill(traced.begin(), traced.end(), -1.0F);
      gemm->run(level, a.data(), traced.data());
      EXPECT_EQ(traced, untraced);
    }
  }
}

Analysis traced_once(const Subject& subject, const TempFolder& folder) {
  const auto traced = trace_subject(subject, /*rounds=*/1, Level::kDetailed, folder.path());
  EXPECT_TRUE(traced.ok()) << traced.error().message();
  EXPECT_EQ(traced->cost.times[2].ns.size(), 1U);
  EXPECT_TRUE(traced->cost.inflation(Level::kCoarse).has_value());
  const auto file = TraceFile::open(traced->path);
  EXPECT_TRUE(file.ok());
  auto report = analyse(*file);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report->lost_events, 0U);
  EXPECT_EQ(report->stray_events, 0U);
  EXPECT_EQ(report->unfinished_tracks, 0U);
  return *report;
}

TEST(TraceSubjects, EveryStepOfThePanelPathIsThere) {
  const Fp4Matrix b = weights();
  const auto subject = gemm_subject(b.view(), 8, {"panel.scalar.4x16.k256.along_m.all", 1, OutputType::kBf16});
  ASSERT_TRUE(subject.ok()) << subject.error().message();
  const TempFolder folder;
  const Analysis report = traced_once(*subject, folder);
  // A call: 10 blocks of channels, two panels of k each, two row tiles.
  const std::uint64_t calls = report.role("pack")->steps;
  EXPECT_GE(calls, 2U);
  EXPECT_EQ(report.role("decode")->steps, calls * 20);
  EXPECT_EQ(report.role("multiply")->steps, calls * 40);
  EXPECT_EQ(report.role("store")->steps, calls * 20);
  EXPECT_EQ(report.role("stream")->steps, 0U);
  EXPECT_EQ(report.matrix.role, "multiply");
}

TEST(TraceSubjects, EveryStepOfAttentionIsThere) {
  AttentionProblem problem;
  problem.heads = 3;
  problem.kv_heads = 1;
  problem.seq = 40;
  problem.kv_seq = 200;
  problem.dim = 64;
  AttentionOptions options;
  options.threads = 1;
  const auto subject = attention_subject(problem, options);
  ASSERT_TRUE(subject.ok()) << subject.error().message();
  const TempFolder folder;
  const Analysis report = traced_once(*subject, folder);
  const std::uint64_t calls = report.role("pack")->steps;
  EXPECT_GE(calls, 2U);
  const std::uint64_t tiles = report.role("queries")->steps;
  EXPECT_EQ(tiles % (3 * calls), 0U);
  EXPECT_EQ(report.role("store")->steps, tiles);
  EXPECT_GE(report.role("scores")->steps, tiles);
  EXPECT_EQ(report.role("softmax")->steps, report.role("scores")->steps);
  EXPECT_EQ(report.role("product")->steps, report.role("scores")->steps);
  EXPECT_EQ(report.matrix.role, "scores + product");
}

TEST(TracedAttention, EveryInstanceGivesTheSameBits) {
  for (const PvType pv : {PvType::kBf16, PvType::kFp8, PvType::kFp4}) {
    AttentionProblem problem;
    problem.heads = 2;
    problem.kv_heads = 1;
    problem.seq = problem.kv_seq = 70;
    problem.dim = 64;
    problem.causal = true;
    problem.pv = pv;
    problem.output = OutputType::kF32;
    auto attention = pinch::attention::TracedAttention::create(problem, {"", 2});
    ASSERT_TRUE(attention.ok()) << attention.error().message();
    const std::int64_t head = 70 * 64;
    const std::vector<Bf16> q = ladder::random_activations(2 * head, 1), kv = ladder::random_activations(head, 2);
    const AttentionInputs in{
        {q.data(), 2 * head, head, 64}, {kv.data(), head, head, 64}, {kv.data(), head, head, 64}, 0.125F};
    std::vector<float> untraced(static_cast<std::size_t>(2 * head)), traced(untraced.size());
    attention->run(Level::kOff, in, {{untraced.data(), 2 * head, head, 64}});
    for (const Level level : {Level::kCoarse, Level::kDetailed}) {
      std::fill(traced.begin(), traced.end(), -1.0F);
      attention->run(level, in, {{traced.data(), 2 * head, head, 64}});
      EXPECT_EQ(traced, untraced);
    }
  }
}

TEST(TraceSubjects, KernelsWithMarksAreNotRanked) {
  EXPECT_EQ(gemm_trace_level(), 0);
  EXPECT_TRUE(ladder::check_rankable(0).ok());
  const auto refused = ladder::check_rankable(1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kIllegal);
  EXPECT_THAT(refused.error().text, testing::HasSubstr("instrumented"));
}

// An nvcc that leaves a program that says how it was called, and what it was given.
class CudaKernels : public testing::Test {
 protected:
  void SetUp() override {
    const std::string nvcc = folder_.path() + "/nvcc";
    std::ofstream(nvcc)
        << "#!/bin/sh\nfor word; do case $word in -o) want=1 ;; *) [ -z \"$want\" ] || { out=$word; want=; } ;; "
           "esac; done\n[ -z \"$FAKE_NVCC_FAILS\" ] || { echo no such knob >&2; exit 1; }\necho \"$@\" >$out\n";
    std::filesystem::permissions(nvcc, std::filesystem::perms::owner_all);
    ::setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("FAKE_NVCC_FAILS");
  }

  [[nodiscard]] CudaKernel kernel(std::string tactic) const {
    cuda::Device device;
    device.ordinal = 3;
    device.sm_count = 132;
    return {std::move(tactic), PINCH_SOURCE_DIR, folder_.path(), device, {}};
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream file(folder_.path() + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TempFolder folder_;
  std::string path_ = std::getenv("PATH");
};

TEST_F(CudaKernels, AreCompiledOfTheTacticAtEveryLevel) {
  const GemmProblem gemm{2048, 4096, 512, Fp4Format::kMxfp4, OutputType::kF32};
  const auto wgmma =
      compile_cuda_gemm(gemm, kernel("wgmma/n128/m256/k64/stages5/consumers2/cluster1x1/group2/split1/raster4"));
  ASSERT_TRUE(wgmma.ok()) << wgmma.error().message();
  EXPECT_EQ(text("kernel.cu"),
            "#define PINCH_TILE 128, 256, 64, 5, 2, 1, 1, 2\n#define PINCH_FORMAT kMxfp4\n#define PINCH_OUTPUT kF32\n"
            "#include \"kernels/gemm_bf16_fp4/sm90/traced/program.cuh\"\n");
  EXPECT_THAT(wgmma->program.argv,
              testing::ElementsAre(folder_.path() + "/kernel_${level}", wgmma->tactic, "2048", "4096", "512", "3"));
  for (const auto& [level, number] : {std::pair("off", 0), std::pair("coarse", 1), std::pair("detailed", 2)})
    EXPECT_THAT(text(std::string("kernel_") + level),
                testing::HasSubstr("-DPINCH_TRACE_LEVEL=" + std::to_string(number)));

  const auto stream =
      compile_cuda_gemm({1, 4096, 4096, Fp4Format::kNvfp4, OutputType::kBf16}, kernel("stream/m1/r2/f4/w8x2/t8/s1/b0"));
  ASSERT_TRUE(stream.ok()) << stream.error().message();
  EXPECT_THAT(text("kernel.cu"), testing::StartsWith("#define PINCH_STREAM 1, 2, 4, 8, 16\n"));

  AttentionProblem attention;
  attention.seq = attention.kv_seq = 256;
  attention.dim = 128;
  attention.causal = true;
  attention.pv = PvType::kFp4;
  const auto fp4 = compile_cuda_attention(attention, kernel(""));
  ASSERT_TRUE(fp4.ok()) << fp4.error().message();
  EXPECT_THAT(fp4->tactic, testing::StartsWith("q128/kv128/"));
  EXPECT_THAT(text("kernel.cu"), testing::StartsWith("#define PINCH_KIND 128, pinch::QkType(0), pinch::PvType(2)\n"));
  EXPECT_THAT(text("kernel_coarse"), testing::HasSubstr("attention/sm90/prepare.cu"));
  EXPECT_THAT(fp4->program.argv,
              testing::ElementsAre(folder_.path() + "/kernel_${level}", "1", "1", "1", "256", "256", "1", "3"));
}

TEST_F(CudaKernels, AreKeptUnderWhatTheyWereMadeOf) {
  const GemmProblem gemm{1, 4096, 4096, Fp4Format::kNvfp4, OutputType::kBf16};
  const std::string header = "/kernels/gemm_bf16_fp4/sm90/traced/program.cuh";
  std::filesystem::create_directories(std::filesystem::path(folder_.path() + header).parent_path());
  std::filesystem::create_directories(folder_.path() + "/include");
  const auto write = [&](const char* text) { std::ofstream(folder_.path() + header) << text; };
  write("// one");
  auto asked = kernel("stream/m1/r2/f4/w8x2/t8/s1/b0");
  asked.sources = folder_.path();
  asked.levels = {Level::kOff, Level::kCoarse};
  asked.kept = folder_.path() + "/kept";
  const auto first = compile_cuda_gemm(gemm, asked);
  ASSERT_TRUE(first.ok()) << first.error().message();
  EXPECT_GT(first->compiled_s, 0);
  EXPECT_EQ(first->program.argv.front(), folder_.path() + "/kernel_${level}");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/kernel_detailed"));

  ::setenv("FAKE_NVCC_FAILS", "1", 1);
  const auto again = compile_cuda_gemm(gemm, asked);
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(again->compiled_s, 0);
  EXPECT_EQ(again->tactic, first->tactic);
  const std::string kept = std::filesystem::path(again->program.argv.front()).parent_path();
  EXPECT_EQ(std::filesystem::path(kept).parent_path(), asked.kept);
  EXPECT_TRUE(std::filesystem::exists(kept + "/kernel_off") && std::filesystem::exists(kept + "/kernel_coarse"));

  // A level more, another kernel, another source: each is compiled anew.
  auto detailed = asked;
  detailed.levels.push_back(Level::kDetailed);
  EXPECT_FALSE(compile_cuda_gemm(gemm, detailed).ok());
  auto other = asked;
  other.tactic = "stream/m1/r2/f2/w8x2/t8/s1/b0";
  EXPECT_FALSE(compile_cuda_gemm(gemm, other).ok());
  write("// two");
  EXPECT_FALSE(compile_cuda_gemm(gemm, asked).ok());

  ::unsetenv("FAKE_NVCC_FAILS");
  for (std::size_t i = 0; i < kKept + 3; ++i) {
    write(std::to_string(i).c_str());
    ASSERT_TRUE(compile_cuda_gemm(gemm, asked).ok());
  }
  const auto count = std::distance(std::filesystem::directory_iterator(asked.kept), {});
  EXPECT_EQ(static_cast<std::size_t>(count), kKept);
}

TEST_F(CudaKernels, AreRefusedWithWhatTheCompilerSays) {
  const GemmProblem gemm{1, 4096, 4096, Fp4Format::kNvfp4, OutputType::kBf16};
  EXPECT_FALSE(compile_cuda_gemm(gemm, kernel("wgmma/n1")).ok());
  auto nowhere = kernel("");
  nowhere.sources = folder_.path();
  EXPECT_EQ(compile_cuda_gemm(gemm, nowhere).error().code, ErrorCode::kUnsupported);
  ::setenv("FAKE_NVCC_FAILS", "1", 1);
  const auto failed = compile_cuda_gemm(gemm, kernel(""));
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().text, testing::HasSubstr("no such knob"));
}

}  // namespace
}  // namespace pinch::trace
