#include "workbench/cuda/launches.h"

#include <cuda.h>

#include <algorithm>

#include "kernels/common/cuda/runtime.h"

namespace pinch::cuda {

namespace {

Result<void> checked(CUresult result, std::string_view doing) {
  if (result == CUDA_SUCCESS) return {};
  return Error{ErrorCode::kDevice, "the driver refuses, error " + std::to_string(result), std::string(doing)};
}

/// Functions of the driver, with which the program is not linked.
struct Driver {
  decltype(&cuGraphKernelNodeGetParams_v2) node_params = nullptr;
  decltype(&cuKernelGetFunction) function = nullptr;
  decltype(&cuFuncGetName) name = nullptr;
  decltype(&cuOccupancyMaxActiveBlocksPerMultiprocessor) resident = nullptr;
};

template <typename F>
Result<void> find(F& function, const char* name, unsigned cuda_version) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t asked = cudaGetDriverEntryPointByVersion(name, &entry, cuda_version, cudaEnableDefault, &found);
  if (asked != cudaSuccess || found != cudaDriverEntryPointSuccess) {
    cudaGetLastError();
    return Error{ErrorCode::kUnsupported, std::string("the driver has no ") + name + ": it is older than CUDA 12.3",
                 ""};
  }
  function = reinterpret_cast<F>(entry);
  return {};
}

Result<Driver> open_driver() {
  Driver driver;
  PINCH_TRY(find(driver.node_params, "cuGraphKernelNodeGetParams", 12000));
  PINCH_TRY(find(driver.function, "cuKernelGetFunction", 12000));
  PINCH_TRY(find(driver.name, "cuFuncGetName", 12030));
  PINCH_TRY(find(driver.resident, "cuOccupancyMaxActiveBlocksPerMultiprocessor", 12000));
  return driver;
}

Result<Launch> launch_of(const Driver& driver, cudaGraphNode_t node, int sm_count) {
  CUDA_KERNEL_NODE_PARAMS_v2 params{};
  PINCH_TRY(checked(driver.node_params(node, &params), "reading a kernel of a graph"));
  CUfunction function = params.func;
  if (function == nullptr) PINCH_TRY(checked(driver.function(&function, params.kern), "loading a kernel"));
  const char* name = nullptr;
  PINCH_TRY(checked(driver.name(&name, function), "asking for a kernel's name"));
  const auto threads = static_cast<int>(params.blockDimX * params.blockDimY * params.blockDimZ);
  int fit = 0;
  PINCH_TRY(checked(driver.resident(&fit, function, threads, params.sharedMemBytes), "asking how many blocks fit"));
  const auto grid = static_cast<long long>(params.gridDimX) * params.gridDimY * params.gridDimZ;
  const long long each = (grid + sm_count - 1) / sm_count;
  return Launch{name, threads, static_cast<int>(std::min<long long>(fit, each))};
}

}  // namespace

Result<std::vector<Launch>> launches_of(cudaGraph_t graph, int sm_count) {
  PINCH_ASSIGN(driver, open_driver());
  std::size_t count = 0;
  PINCH_TRY(check(cudaGraphGetNodes(graph, nullptr, &count), "counting a graph's nodes"));
  std::vector<cudaGraphNode_t> nodes(count);
  PINCH_TRY(check(cudaGraphGetNodes(graph, nodes.data(), &count), "listing a graph's nodes"));
  std::vector<Launch> launches;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    PINCH_TRY(check(cudaGraphNodeGetType(node, &type), "asking for a node's type"));
    if (type != cudaGraphNodeTypeKernel) continue;
    PINCH_ASSIGN(launch, launch_of(driver, node, sm_count));
    launches.push_back(std::move(launch));
  }
  return launches;
}

}  // namespace pinch::cuda
