#include "workbench/check/environment.h"

#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

#include "pinch/machine.h"
#include "pinch/version.h"
#include "src/core/subprocess.h"

namespace pinch::check {
namespace {

using nlohmann::ordered_json;

constexpr double kSmiTimeout_s = 20;  // the first call wakes GPUs that nothing holds awake

ordered_json number_or_text(const std::string& text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed == std::errc() && end == text.data() + text.size()) return value;
  return text;
}

ordered_json gpus() {
  constexpr std::array<const char*, 8> kKeys = {"index",  "name",       "uuid",       "driver",
                                                "sm_mhz", "sm_mhz_max", "memory_mhz", "power_limit_w"};
  auto list = ordered_json::array();
  Command command;
  command.argv = {"nvidia-smi",
                  "--query-gpu=index,name,uuid,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit",
                  "--format=csv,noheader,nounits"};
  command.timeout_s = kSmiTimeout_s;
  const auto finished = run(command);
  if (!finished.ok() || !finished->succeeded()) return list;
  std::istringstream lines(finished->out);
  for (std::string line; std::getline(lines, line);) {
    ordered_json gpu;
    std::istringstream fields(line);
    std::size_t key = 0;
    for (std::string field; key < kKeys.size() && std::getline(fields, field, ','); ++key) {
      field.erase(0, field.find_first_not_of(' '));
      gpu[kKeys[key]] = key == 3 ? ordered_json(field) : number_or_text(field);  // "550.90" is a version
    }
    if (key == kKeys.size()) list.push_back(std::move(gpu));
  }
  return list;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

ordered_json cpu_mhz() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 7, "cpu MHz") == 0) return number_or_text(line.substr(line.find(':') + 2));
  }
  return nullptr;
}

std::map<std::string, std::string> variables(std::span<const std::string_view> prefixes) {
  std::map<std::string, std::string> found;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const std::size_t equals = entry.find('=');
    const bool wanted = std::any_of(prefixes.begin(), prefixes.end(),
                                    [&](std::string_view prefix) { return entry.substr(0, prefix.size()) == prefix; });
    if (wanted && equals != std::string_view::npos) found.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return found;
}

}  // namespace

ordered_json environment() {
  utsname system = {};
  ::uname(&system);
  const CpuMachine& cpu = cpu_machine();
  return {{"pinch", fmt::format("{} ({})", version(), git_sha())},
          {"host", system.nodename},
          {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
          {"cpu", cpu.brand},
          {"cores", cpu.cores},
          {"cpu_mhz", cpu_mhz()},
          {"governor", first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")},
          {"gpus", gpus()}};
}

std::string machine_text(const ordered_json& environment) {
  std::string text = fmt::format("{} x {}", environment["cores"].get<int>(), environment["cpu"].get<std::string>());
  for (const auto& gpu : environment["gpus"]) text += fmt::format("; {} {}", gpu["name"].dump(), gpu["driver"].dump());
  return text;
}

std::map<std::string, std::string> run_variables() {
  static constexpr auto kPrefixes = std::to_array<std::string_view>(
      {"LD_",     "OMP_",   "GOMP_",   "KMP_",    "MKL_",  "OPENBLAS_", "BLIS_", "CUDA_",
       "CUBLAS_", "CUDNN_", "NVIDIA_", "NCCL_",   "TORCH", "PYTORCH_",  "JAX_",  "XLA_",
       "TF_",     "HIP_",   "ROCR_",   "TRITON_", "CUTE_", "PYTHON",    "GLIBC", "MALLOC_"});
  return variables(kPrefixes);
}

std::map<std::string, std::string> build_variables() {
  static constexpr auto kPrefixes =
      std::to_array<std::string_view>({"CFLAGS=", "CXXFLAGS=", "CPPFLAGS=", "LDFLAGS=", "CC=", "CXX=", "CPATH=",
                                       "C_INCLUDE_PATH=", "CPLUS_INCLUDE_PATH=", "LIBRARY_PATH=", "NVCC_"});
  return variables(kPrefixes);
}

}  // namespace pinch::check
