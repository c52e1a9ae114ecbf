#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "src/core/mapped_file.h"
#include "workbench/probe/cuda_probe.h"
#include "workbench/probe/loop_proof.h"
#include "workbench/sass/input.h"
#include "workbench/sass/tools.h"

namespace pinch::probe {
namespace {

using Cubin = std::shared_ptr<const std::string>;

Result<Cubin> compile(const std::string& ptxas, const std::string& arch, const std::vector<CudaKernel>& kernels) {
  PINCH_ASSIGN(source, sass::TemporaryFile::create(ptx_of(arch, kernels)));
  PINCH_ASSIGN(cubin, sass::TemporaryFile::create());
  PINCH_TRY(sass::run_tool({ptxas, "-arch=" + arch, "-O3", "-o", cubin.path(), source.path()}));
  PINCH_ASSIGN(image, MappedFile::open(cubin.path()));
  return std::make_shared<const std::string>(reinterpret_cast<const char*>(image->bytes().data()),
                                             image->bytes().size());
}

// "13.0" of a CUDA tool that says "..., release 13.0, V13.0.88".
std::string release_of(const std::string& tool) {
  constexpr std::string_view kBefore = "release ";
  const auto version = sass::run_tool({tool, "--version"});
  const auto at = version ? version->find(kBefore) : std::string::npos;
  if (at == std::string::npos) return "unknown";
  const auto begin = at + kBefore.size();
  return version->substr(begin, version->find_first_of(",\n", begin) - begin);
}

// ptxas compiles a file whole or not at all: where it refuses one, those of each probe alone.
std::vector<CudaKernel> find_refused(const std::string& ptxas, const std::string& arch,
                                     std::vector<CudaKernel>& kernels) {
  std::vector<CudaKernel> accepted;
  for (auto first = kernels.begin(); first != kernels.end();) {
    const auto last =
        std::find_if(first, kernels.end(), [&](const CudaKernel& k) { return k.probes != first->probes; });
    const auto alone = compile(ptxas, arch, {first, last});
    if (alone) {
      accepted.insert(accepted.end(), first, last);
    } else {
      std::for_each(first, last, [&](CudaKernel& k) { k.refused = alone.error().message(); });
    }
    first = last;
  }
  return accepted;
}

}  // namespace

bool CudaKernel::proved() const {
  return !proofs.empty() && std::all_of(proofs.begin(), proofs.end(), [](const Proof& p) { return p.proved(); });
}

Result<CudaModule> build_cuda(const CudaOptions& options) {
  CudaModule module;
  module.arch = options.arch;
  PINCH_ASSIGN(kernels, choose_kernels(options));
  module.kernels = std::move(kernels);
  const auto ptxas = sass::find_cuda_tool("ptxas");
  if (!ptxas)
    return Error{ErrorCode::kUnsupported, "compiling probes needs ptxas; install the CUDA toolkit or put ptxas on PATH",
                 ""};
  module.ptxas = release_of(*ptxas);
  const auto progress = [&](double done, const std::string& what) {
    if (options.progress) options.progress(done, 2, what);
  };
  progress(0, fmt::format("{} loops by ptxas", module.kernels.size()));
  auto cubin = compile(*ptxas, options.arch, module.kernels);
  if (!cubin) {
    const auto accepted = find_refused(*ptxas, options.arch, module.kernels);
    if (accepted.empty()) return cubin.error();
    cubin = compile(*ptxas, options.arch, accepted);
    if (!cubin) return cubin.error();
  }
  module.cubin = *cubin;
  progress(1, "proofs");
  PINCH_TRY(prove(module, options));
  return module;
}

Result<void> prove(CudaModule& module, const CudaOptions& options) {
  sass::InputOptions input;
  input.disassembler = options.disassembler;
  if (input.disassembler.empty()) input.disassembler = sass::find_cuda_tool("nvdisasm").value_or("none");
  PINCH_ASSIGN(program, sass::read_program_bytes(module.cubin, "probes", input));
  module.names = program.kernels.front().mnemonics_from;
  const bool by_map = module.names == "opcode map";
  if (module.names == "nvdisasm") module.nvdisasm = release_of(input.disassembler);
  std::map<std::string_view, const sass::Kernel*> by_name;
  for (const sass::Kernel& kernel : program.kernels) by_name[kernel.name] = &kernel;
  for (CudaKernel& kernel : module.kernels) {
    const auto found = by_name.find(kernel.name);
    std::vector<Timed> timed;
    Timed beside;
    for (const CudaProbe* probe : kernel.probes) {
      const int each = kernel.operations / static_cast<int>(kernel.probes.size());
      timed.push_back({probe->opcode, each * probe->per_op, probe->also});
      if (!probe->beside.empty()) beside = {probe->beside, each * probe->beside_per_op + probe->beside_per_loop, ""};
      // An arrival and a wait an iteration: one beside every product is a chain that ptxas serialised, whose figure
      // would be a latency.
      if (probe->chain == Chain::kWarpgroup) beside = {"WARPGROUP", 2, ""};
    }
    kernel.proofs = prove(found == by_name.end() ? sass::Kernel{} : *found->second, timed, by_map, beside);
    if (kernel.refused.empty()) continue;
    for (Proof& proof : kernel.proofs) proof.instead = "nothing, since ptxas " + kernel.refused;
  }
  return {};
}

}  // namespace pinch::probe
