#include "workbench/trace/cuda_kernels.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/attention/sm90/family.h"
#include "kernels/gemm_bf16_fp4/sm90/family.h"
#include "src/core/subprocess.h"
#include "workbench/sass/tools.h"
#include "workbench/store/binary_hash.h"
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
  // No -O: that is the host's code alone, which takes an eighth longer to compile with it; the device's is the same.
  command.argv = {nvcc,
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

// What a program is made of: the text of its own file, all files that it may include, and the compiler.
std::string hash_of(const CudaKernel& kernel, const std::string& nvcc, const std::string& text,
                    const std::vector<std::string>& more) {
  namespace fs = std::filesystem;
  std::error_code failed;
  std::vector<std::string> files;
  for (const char* folder : {"/kernels", "/include"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kernel.sources + folder, failed)) {
      const auto ending = entry.path().extension();
      if (ending == ".h" || ending == ".cuh" || ending == ".cu" || ending == ".inc")
        files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  std::string all = fmt::format("{}\n{}\n{}\n", text, fmt::join(more, " "), fs::canonical(nvcc, failed).string());
  all +=
      fmt::format("{} {}\n", fs::file_size(nvcc, failed), fs::last_write_time(nvcc, failed).time_since_epoch().count());
  for (const Level level : kernel.levels) all += to_string(level);
  for (const std::string& file : files) {
    std::ifstream stream(file, std::ios::binary);
    all += file + "\n" + std::string{std::istreambuf_iterator<char>(stream), {}};
  }
  return store::text_hash(all);
}

std::string program_path(const std::string& folder, Level level) {
  return fmt::format("{}/kernel_{}", folder, to_string(level));
}

bool holds(const std::string& folder, const std::vector<Level>& levels) {
  return std::all_of(levels.begin(), levels.end(),
                     [&](Level level) { return std::filesystem::exists(program_path(folder, level)); });
}

// Into `kept`/`name`, whole or not at all; the oldest beyond kKept go. What cannot be kept is compiled again some day.
void keep(const CudaKernel& kernel, const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const std::string partial = fmt::format("{}/{}.{}", kernel.kept, name, ::getpid());
  fs::create_directories(partial, failed);
  for (const Level level : kernel.levels)
    fs::copy_file(program_path(kernel.folder, level), program_path(partial, level), failed);
  if (holds(partial, kernel.levels)) fs::rename(partial, kernel.kept + "/" + name, failed);
  fs::remove_all(partial, failed);
  std::vector<std::pair<fs::file_time_type, fs::path>> all;
  for (const auto& entry : fs::directory_iterator(kernel.kept, failed))
    all.emplace_back(fs::last_write_time(entry.path(), failed), entry.path());
  std::sort(all.rbegin(), all.rend());
  for (std::size_t i = kKept; i < all.size(); ++i) fs::remove_all(all[i].second, failed);
}

// A program of `defines` and of traced/program.cuh in `folder` of the sources, with `more` files of that folder.
Result<CudaProgram> compile(const CudaKernel& kernel, const std::string& folder, const std::string& defines,
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
  const std::string text = fmt::format("{}#include \"{}\"\n", defines, header);
  CudaProgram made;
  made.program.timeout_s = 120;
  const std::string name = kernel.kept.empty() ? "" : hash_of(kernel, *nvcc, text, more);
  if (const std::string kept = kernel.kept + "/" + name; !name.empty() && holds(kept, kernel.levels)) {
    made.program.argv = {kept + "/kernel_${level}"};
    return made;
  }
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::string> sources = {kernel.folder + "/kernel.cu"};
  if (!(std::ofstream(sources[0]) << text).flush())
    return Error{ErrorCode::kIo, "cannot write the kernel's source", sources[0]};
  for (const std::string& file : more) sources.push_back(kernel.sources + "/" + folder + file);
  std::vector<std::future<Result<void>>> compiled;
  for (const Level level : kernel.levels) {
    compiled.push_back(std::async(std::launch::async, compile_level, *nvcc, kernel, sources,
                                  program_path(kernel.folder, level), level));
  }
  for (auto& each : compiled) PINCH_TRY(each.get());
  made.compiled_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!name.empty()) keep(kernel, name);
  made.program.argv = {kernel.folder + "/kernel_${level}"};
  return made;
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
  PINCH_ASSIGN(made, compile(kernel, kGemmFolder, defines, {}));
  made.tactic = gemm_bf16_fp4::sm90::to_string(tactic);
  made.program.argv.push_back(made.tactic);
  for (const std::int64_t size : {problem.m, problem.n, problem.k, std::int64_t{kernel.device.ordinal}})
    made.program.argv.push_back(std::to_string(size));
  return std::move(made);
}

Result<CudaProgram> compile_cuda_attention(const AttentionProblem& problem, const CudaKernel& kernel) {
  PINCH_ASSIGN(index, index_of(sm90_attention_family(), problem, kernel));
  const auto& tactic = attention::sm90::tactics()[index];
  const std::string defines =
      knobs_of(tactic, problem) + define("PINCH_OUTPUT", problem.output == OutputType::kF32 ? "kF32" : "kBf16");
  PINCH_ASSIGN(made, compile(kernel, kAttentionFolder, defines, {"prepare.cu"}));
  for (const std::int64_t size : {problem.batch, problem.heads, problem.kv_heads, problem.seq, problem.kv_seq,
                                  std::int64_t{problem.causal}, std::int64_t{kernel.device.ordinal}})
    made.program.argv.push_back(std::to_string(size));
  made.tactic = attention::sm90::to_string(tactic);
  return std::move(made);
}

}  // namespace pinch::trace
