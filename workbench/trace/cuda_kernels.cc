#include "workbench/trace/cuda_kernels.h"

#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <future>
#include <variant>
#include <vector>

#include "kernels/attention/sm90/family.h"
#include "kernels/gemm_bf16_fp4/sm90/family.h"
#include "src/core/subprocess.h"
#include "workbench/sass/tools.h"
#include "workbench/trace/reader.h"

namespace pinch::trace {
namespace {

constexpr const char* kGemmFolder = "kernels/gemm_bf16_fp4/sm90/";
constexpr const char* kAttentionFolder = "kernels/attention/sm90/";

std::string define(const char* name, const std::string& value) {
  return fmt::format("#define {} {}\n", name, value);
}

std::string knobs_of(const gemm_bf16_fp4::sm90::WgmmaTactic& tactic) {
  const auto& t = tactic.tile;
  return define("PINCH_TILE", fmt::format("{}, {}, {}, {}, {}, {}, {}, {}", t.tile_n, t.tile_m, t.tile_k, t.stages,
                                          t.consumers, t.cluster_n, t.cluster_k, t.group));
}
std::string knobs_of(const gemm_bf16_fp4::sm90::StreamTactic& tactic) {
  const auto i = gemm_bf16_fp4::sm90::instance_of(tactic);
  return define("PINCH_STREAM",
                fmt::format("{}, {}, {}, {}, {}", i.m_blocks, i.row_tiles, i.in_flight, i.k_warps, i.warps_per_sm));
}

// An enumerator by its number, so that no list of names is kept here.
template <class Enum>
std::string enumerator(const char* type, Enum value) {
  return fmt::format("{}({})", type, static_cast<int>(value));
}

std::string knobs_of(const attention::sm90::Tactic& tactic, const AttentionProblem& problem) {
  const auto& t = tactic.tile;
  return define("PINCH_KIND", fmt::format("{}, {}, {}", problem.dim, enumerator("pinch::QkType", problem.qk),
                                          enumerator("pinch::PvType", problem.pv))) +
         define("PINCH_TILE", fmt::format("{}, {}, {}, {}, {}, {}, {}, {}, {}, {}", t.tile_q, t.tile_kv, t.stages,
                                          enumerator("pinch::attention::Exp2", t.exp2), t.sixteenths,
                                          enumerator("pinch::attention::Quant", t.quant), t.split_numerator,
                                          t.split_denominator, t.chunks, t.read_ahead)) +
         define("PINCH_LAUNCH",
                fmt::format("{}, {}, {}", tactic.threshold, enumerator("Schedule", tactic.schedule), tactic.heads));
}

Result<void> compile_level(const std::string& nvcc, const CudaKernel& kernel, const std::vector<std::string>& sources,
                           const std::string& program, Level level) {
  Command command;
  command.argv = {nvcc,
                  "-O3",
                  "-std=c++20",
                  "-gencode=arch=compute_90a,code=sm_90a",
                  "-I",
                  kernel.sources,
                  "-I",
                  kernel.sources + "/include",
                  fmt::format("-DPINCH_TRACE_LEVEL={}", static_cast<int>(level)),
                  "-o",
                  program};
  command.argv.insert(command.argv.end(), sources.begin(), sources.end());
  PINCH_ASSIGN(finished, run(command, kernel.stop_requested));
  if (finished.ending == Ending::kStopped) return Error{ErrorCode::kInterrupted, "interrupted", ""};
  if (finished.succeeded()) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("nvcc {}: {}", finished.describe(), finished.err),
               sources.front()};
}

// A program of `defines` and of traced/program.cuh in `folder` of the sources, with `more` files of that folder.
Result<Program> compile(const CudaKernel& kernel, const std::string& folder, const std::string& defines,
                        const std::vector<std::string>& more) {
  const std::string header = folder + "traced/program.cuh";
  if (!std::filesystem::exists(kernel.sources + "/" + header)) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the kernel is compiled from this project's sources, and there is no {} here; set "
                             "PINCH_SOURCE to their folder",
                             header),
                 kernel.sources};
  }
  const auto nvcc = sass::find_cuda_tool("nvcc");
  if (!nvcc) {
    return Error{ErrorCode::kUnsupported,
                 "compiling the kernel with marks needs nvcc; install the CUDA toolkit or put nvcc on PATH", ""};
  }
  std::vector<std::string> sources = {kernel.folder + "/kernel.cu"};
  if (!(std::ofstream(sources[0]) << defines << "#include \"" << header << "\"\n").flush())
    return Error{ErrorCode::kIo, "cannot write the kernel's source", sources[0]};
  for (const std::string& file : more) sources.push_back(kernel.sources + "/" + folder + file);
  std::array<std::future<Result<void>>, 3> compiled;
  for (std::size_t l = 0; l < compiled.size(); ++l) {
    const auto level = static_cast<Level>(l);
    compiled[l] = std::async(std::launch::async, compile_level, *nvcc, kernel, sources,
                             fmt::format("{}/kernel_{}", kernel.folder, to_string(level)), level);
  }
  for (auto& each : compiled) PINCH_TRY(each.get());
  Program program;
  program.argv = {kernel.folder + "/kernel_${level}"};
  program.timeout_s = 120;
  return program;
}

template <class Family, class Problem>
Result<std::size_t> index_of(const Family& family, const Problem& problem, const CudaKernel& kernel) {
  if (!kernel.tactic.empty()) return parse_tactic(family, kernel.tactic);
  PINCH_ASSIGN(best, default_tactic(family, problem, {kernel.device.sm_count, 0}));
  return best.index;
}

}  // namespace

Result<CudaProgram> compile_cuda_gemm(const GemmProblem& problem, const CudaKernel& kernel) {
  PINCH_ASSIGN(index, index_of(sm90_tactic_family(), problem, kernel));
  const auto& tactic = gemm_bf16_fp4::sm90::tactics()[index];
  const std::string defines = std::visit([](const auto& t) { return knobs_of(t); }, tactic) +
                              define("PINCH_FORMAT", problem.format == Fp4Format::kNvfp4 ? "kNvfp4" : "kMxfp4") +
                              define("PINCH_OUTPUT", problem.output == OutputType::kF32 ? "kF32" : "kBf16");
  PINCH_ASSIGN(program, compile(kernel, kGemmFolder, defines, {}));
  const std::string name = gemm_bf16_fp4::sm90::to_string(tactic);
  program.argv.push_back(name);
  for (const std::int64_t size : {problem.m, problem.n, problem.k, std::int64_t{kernel.device.ordinal}})
    program.argv.push_back(std::to_string(size));
  return CudaProgram{std::move(program), name};
}

Result<CudaProgram> compile_cuda_attention(const AttentionProblem& problem, const CudaKernel& kernel) {
  PINCH_ASSIGN(index, index_of(sm90_attention_family(), problem, kernel));
  const auto& tactic = attention::sm90::tactics()[index];
  const std::string defines =
      knobs_of(tactic, problem) + define("PINCH_OUTPUT", problem.output == OutputType::kF32 ? "kF32" : "kBf16");
  PINCH_ASSIGN(program, compile(kernel, kAttentionFolder, defines, {"prepare.cu"}));
  for (const std::int64_t size : {problem.batch, problem.heads, problem.kv_heads, problem.seq, problem.kv_seq,
                                  std::int64_t{problem.causal}, std::int64_t{kernel.device.ordinal}})
    program.argv.push_back(std::to_string(size));
  return CudaProgram{std::move(program), attention::sm90::to_string(tactic)};
}

}  // namespace pinch::trace
