#include "workbench/trace/cuda_gemm.h"

#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <future>

#include "kernels/gemm_bf16_fp4/sm90/tactic.h"
#include "src/core/subprocess.h"
#include "workbench/sass/tools.h"
#include "workbench/trace/reader.h"

namespace pinch::trace {
namespace {

constexpr const char* kProgram = "kernels/gemm_bf16_fp4/sm90/traced/program.cuh";

std::string instance_of(const gemm_bf16_fp4::sm90::WgmmaTile& t, const GemmProblem& problem) {
  return fmt::format(
      "#define PINCH_TILE {}, {}, {}, {}, {}, {}, {}, {}\n#define PINCH_FORMAT {}\n#define PINCH_OUTPUT {}\n"
      "#include \"{}\"\n",
      t.tile_n, t.tile_m, t.tile_k, t.stages, t.consumers, t.cluster_n, t.cluster_k, t.group,
      problem.format == Fp4Format::kNvfp4 ? "kNvfp4" : "kMxfp4", problem.output == OutputType::kF32 ? "kF32" : "kBf16",
      kProgram);
}

Result<void> compile(const std::string& nvcc, const std::string& sources, const std::string& source,
                     const std::string& program, Level level, const std::function<bool()>& stop_requested) {
  Command command;
  command.argv = {nvcc,
                  "-O3",
                  "-std=c++20",
                  "-gencode=arch=compute_90a,code=sm_90a",
                  "-I",
                  sources,
                  "-I",
                  sources + "/include",
                  fmt::format("-DPINCH_TRACE_LEVEL={}", static_cast<int>(level)),
                  "-o",
                  program,
                  source};
  PINCH_ASSIGN(finished, run(command, stop_requested));
  if (finished.ending == Ending::kStopped) return Error{ErrorCode::kInterrupted, "interrupted", ""};
  if (finished.succeeded()) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("nvcc {}: {}", finished.describe(), finished.err), source};
}

}  // namespace

Result<Program> compile_cuda_gemm(const CudaGemm& gemm, const std::string& folder,
                                  const std::function<bool()>& stop_requested) {
  const auto tactic = gemm_bf16_fp4::sm90::parse_wgmma_tactic(gemm.tactic);
  if (!tactic) {
    return Error{ErrorCode::kIllegal,
                 "the wgmma kernel has marks, the streaming kernel has none; give --tactic one that begins with wgmma, "
                 "as `pinch tactics rank --family sm90` lists them",
                 gemm.tactic};
  }
  if (!std::filesystem::exists(gemm.sources + "/" + kProgram)) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the kernel is compiled from this project's sources, and there is no {} here; set "
                             "PINCH_SOURCE to their folder",
                             kProgram),
                 gemm.sources};
  }
  const auto nvcc = sass::find_cuda_tool("nvcc");
  if (!nvcc) {
    return Error{ErrorCode::kUnsupported,
                 "compiling the kernel with marks needs nvcc; install the CUDA toolkit or put nvcc on PATH", ""};
  }
  const std::string source = folder + "/gemm.cu";
  if (!(std::ofstream(source) << instance_of(tactic->tile, gemm.problem)).flush())
    return Error{ErrorCode::kIo, "cannot write the kernel's source", source};
  std::array<std::future<Result<void>>, 3> compiled;
  for (std::size_t l = 0; l < compiled.size(); ++l) {
    const auto level = static_cast<Level>(l);
    compiled[l] = std::async(std::launch::async, compile, *nvcc, gemm.sources, source,
                             fmt::format("{}/gemm_{}", folder, to_string(level)), level, stop_requested);
  }
  for (auto& each : compiled) PINCH_TRY(each.get());
  Program program;
  program.argv = {folder + "/gemm_${level}",      gemm.tactic,
                  std::to_string(gemm.problem.m), std::to_string(gemm.problem.n),
                  std::to_string(gemm.problem.k), std::to_string(gemm.device)};
  program.timeout_s = 120;
  return program;
}

}  // namespace pinch::trace
