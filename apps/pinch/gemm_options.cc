#include "apps/pinch/gemm_options.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "apps/pinch/cli.h"
#include "apps/pinch/problem_options.h"
#include "pinch/fp4_checkpoint.h"
#include "pinch/machine.h"
#include "pinch/safetensors.h"
#include "workbench/ladder/gemm_inputs.h"
#include "workbench/ladder/machine.h"

namespace pinch::cli {
namespace {

constexpr std::uint64_t kWeightSeed = 1;

// A list is "1,8,32", the option repeated, or both.
std::vector<std::int64_t> parse_rows(const std::vector<std::string>& words) {
  std::vector<std::int64_t> rows;
  for (const std::string& word : words) {
    std::string_view rest = word;
    while (true) {
      const std::string_view text = rest.substr(0, rest.find(','));
      std::int64_t value = 0;
      const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (status != std::errc() || stop != text.data() + text.size()) {
        throw CLI::ValidationError("--m",
                                   fmt::format("'{}' is not a whole number that fits 64 bits; give one or a list, "
                                               "as in 1,8,32",
                                               text));
      }
      rows.push_back(value);
      if (text.size() == rest.size()) break;
      rest.remove_prefix(text.size() + 1);
    }
  }
  return rows;
}

}  // namespace

void GemmOptionGroup::add_to(CLI::App& command) {
  command.add_option("--weights", file_, "Take the weights from this .safetensors file")->type_name("FILE");
  command.add_option("--tensor", tensor_, "The tensor to take: plain floats, or FP4 of ModelOpt or compressed-tensors")
      ->type_name("NAME");
  command
      .add_option_function<std::vector<std::string>>(
          "--m", [this](const std::vector<std::string>& words) { m_ = parse_rows(words); },
          "Rows of the activations: one number or a list, as in 1,8,32; each is a problem of its own")
      ->required()
      ->type_name("INT,...")
      ->allow_extra_args(false);
  add_whole_number(command, "--n", problem_.n, "Output channels, where no --weights are given");
  add_whole_number(command, "--k", problem_.k, "Columns of activations and weights, where no --weights are given");
  add_type_options(command, problem_);
  format_ = command.get_option("--format");
  command.add_option("--device", device_, "Where it runs: cpu, cuda, or cuda:N for device N")
      ->type_name("DEVICE")
      ->capture_default_str();
  thread_option_ =
      add_whole_number(command, "--threads", threads_, "Worker threads; every core of the process where left out");
  command.add_option("--isa", isa_, "Use this instruction set alone, as PINCH_CPU does")->type_name("NAME");
}

Result<void> GemmOptionGroup::check() const {
  const auto usage = [](const char* text) { return Error{ErrorCode::kInvalidArgument, text, ""}; };
  for (const std::int64_t m : m_) {
    if (m < 1) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("{}; the activations need at least 1 row", m), "--m"};
    }
  }
  if (file_.empty()) {
    if (!tensor_.empty()) return usage("--tensor names a tensor of a file: give --weights FILE too");
    if (problem_.n == 0 || problem_.k == 0) {
      return usage("what is the problem? Give --n and --k, or --weights FILE and --tensor NAME");
    }
    return {};
  }
  if (tensor_.empty()) return usage("--weights needs --tensor NAME: which of the file's tensors");
  if (problem_.n != 0 || problem_.k != 0) return usage("--n and --k come from the tensor: leave them out");
  return {};
}

Result<std::vector<std::unique_ptr<ladder::Task>>> GemmOptionGroup::tasks() {
  PINCH_ASSIGN(where, target());
  PINCH_ASSIGN(matrix, weights());
  target_ = std::move(where);
  weights_.emplace(*target_, std::move(matrix), name_);
  std::vector<std::unique_ptr<ladder::Task>> tasks;
  for (const std::int64_t m : m_) tasks.push_back(weights_->task(m, problem_.output));
  return tasks;
}

Result<std::unique_ptr<ladder::GemmTarget>> GemmOptionGroup::target() {
  PINCH_TRY(check());
  if (on_cuda()) {
    PINCH_ASSIGN(ordinal, cuda_device());
    return ladder::make_cuda_target(ordinal, project_sources());
  }
  if (!isa_.empty()) {
    PINCH_TRY(parse_cpu_isa(isa_));
    ::setenv("PINCH_CPU", isa_.c_str(), /*overwrite=*/1);
  }
  PINCH_TRY(cpu_choice());
  PINCH_ASSIGN(threads, ladder::choose_threads(threads_));
  return ladder::make_cpu_target(threads);
}

Result<GemmProblem> GemmOptionGroup::shape(std::int64_t m) const {
  PINCH_TRY(check());
  if (!file_.empty())
    return Error{ErrorCode::kInvalidArgument, "random weights are used here: give --n and --k instead", "--weights"};
  GemmProblem problem = problem_;
  problem.m = m;
  return problem;
}

Result<int> GemmOptionGroup::cuda_device() const {
  PINCH_ASSIGN(ordinal, parse_cuda(device_));
  if (thread_option_->count() > 0 || !isa_.empty()) {
    return Error{ErrorCode::kInvalidArgument, "--threads and --isa are the CPU's: leave them out with --device cuda",
                 ""};
  }
  return ordinal;
}

Result<Fp4Matrix> GemmOptionGroup::weights() {
  if (file_.empty()) {
    name_ = fmt::format("generated, seed {}", kWeightSeed);
    return ladder::random_weights(problem_.format, problem_.n, problem_.k, kWeightSeed);
  }
  name_ = fmt::format("{} of {}", tensor_, file_);
  PINCH_ASSIGN(file, SafetensorsFile::open(file_));
  const bool asked = format_->count() > 0;
  return load_fp4_tensor(file, tensor_, asked ? std::optional(problem_.format) : std::nullopt);
}

}  // namespace pinch::cli
