// This machine as far as results depend on it: what a stored result says of where it was measured.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace pinch::check {

/// {pinch, host, system, cpu, cores, cpu_mhz, governor, gpus: [{index, name, uuid, driver, sm_mhz, sm_mhz_max,
/// memory_mhz, power_limit_w}]}, the clocks as they are now. GPUs are those that nvidia-smi lists; without it there are
/// none.
nlohmann::ordered_json environment();

/// What of environment() must be equal for two results to be samples of one thing: the CPU, the GPUs by name, the
/// driver. The host's name is not: a container gets a new one each time.
std::string machine_text(const nlohmann::ordered_json& environment);

/// The variables of this process that are known to change what a program does: LD_*, OMP_*, CUDA_*, TRITON_*, PYTHON*
/// and their like.
std::map<std::string, std::string> run_variables();
/// Those that change what a compiler makes: CFLAGS, CPATH, NVCC_* and their like.
std::map<std::string, std::string> build_variables();

}  // namespace pinch::check
