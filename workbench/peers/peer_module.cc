#include "workbench/peers/peer_module.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "pinch/machine.h"

namespace pinch::peers {

namespace {

/// OpenBLAS takes the slowest kernels for a processor newer than itself, so it is told what this one can do, unless the
/// user did.
void name_openblas_core() {
  const CpuIsa isa = cpu_machine().best_isa;
  if (isa >= CpuIsa::kAvx2) ::setenv("OPENBLAS_CORETYPE", isa >= CpuIsa::kAvx512 ? "SkylakeX" : "Haswell", 0);
}

}  // namespace

PeerList make_peers(const PeerProblem& problem) {
  name_openblas_core();
  PeerList list;
  std::error_code unreadable;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", unreadable).parent_path();
  void* module = nullptr;
  for (const auto& place : {folder, folder / ".." / "libexec" / "pinch"}) {
    if (module == nullptr) module = ::dlopen((place / kPeerModule).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  void* entry = module == nullptr ? nullptr : ::dlsym(module, kMakePeersSymbol);
  if (entry == nullptr) {
    list.absent.push_back(fmt::format("every peer: {}", ::dlerror()));
    return list;
  }
  reinterpret_cast<MakePeers>(entry)(problem, list);
  return list;
}

}  // namespace pinch::peers
