#include "workbench/peers/peer_module.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <filesystem>
#include <system_error>

namespace pinch::peers {

PeerList make_peers(const PeerProblem& problem) {
  PeerList list;
  std::error_code unreadable;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  const std::string path = (program.parent_path() / kPeerModule).string();
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = module == nullptr ? nullptr : ::dlsym(module, kMakePeersSymbol);
  if (entry == nullptr) {
    list.absent.push_back(fmt::format("every peer: {}", ::dlerror()));
    return list;
  }
  reinterpret_cast<MakePeers>(entry)(problem, list);
  return list;
}

}  // namespace pinch::peers
