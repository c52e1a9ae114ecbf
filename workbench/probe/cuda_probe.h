// Probes of GPU instructions: PTX loops made from a list, compiled by ptxas, proved in their SASS by our own reader,
// and timed with the SM's clock where there is a device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pinch/result.h"
#include "workbench/probe/model.h"
#include "workbench/probe/proof.h"

namespace pinch::probe {

struct CudaProbe {
  std::string name;    ///< "ex2.f32"
  std::string opcode;  ///< of SASS, with the modifiers that tell it apart: "MUFU.EX2"
  /// Register of a chain: f .f32, r .b32, d .b64, a a shared address, g a global one, m the four .f32 of a warp's
  /// product, w the `columns` / 2 of a warpgroup's, s none (a barrier).
  char chain;
  /// {c} the chain; {f} {h} invariant floats, {r} {s} integers, {p} {q} pairs of floats; {x} float, {i} {j} {o} 32-bit,
  /// {k} {l} 16-bit, {b} 8-bit and {t} predicate scratch; {m} the floats of a product, {u} {v} its matrix descriptors.
  std::string ptx;
  int per_op = 1;                 ///< of `opcode` an operation
  int min_sm = 80, max_sm = 999;  ///< the same name may stand for other code on other architectures
  int most_chains = 16;
  int columns = 0;  ///< N of a warpgroup's product

  /// Floats of one product that a thread holds.
  [[nodiscard]] int accumulators() const { return chain == 'w' ? columns / 2 : chain == 'm' ? 4 : 0; }
  [[nodiscard]] bool exists_on(int sm) const { return sm >= min_sm && sm <= max_sm; }
};

[[nodiscard]] const std::vector<CudaProbe>& cuda_probes();
/// Pairs measured by default, by name.
[[nodiscard]] const std::vector<std::pair<std::string, std::string>>& cuda_pairs();

/// One compiled kernel: a loop of `operations` that takes its probes in turn.
struct CudaKernel {
  std::string name;  ///< of the entry
  std::vector<const CudaProbe*> probes;
  int chains = 1, operations = 0;
  std::vector<Proof> proofs;  ///< one a probe
  [[nodiscard]] bool proved() const;
  /// Of a block: a warpgroup's product takes the registers of one.
  [[nodiscard]] int most_threads() const;
};

struct CudaModule {
  std::string arch;   ///< "sm_90a"
  std::string ptxas;  ///< its release, as it says
  std::string names;  ///< what named the opcodes: "nvdisasm" or "opcode map"
  std::shared_ptr<const std::string> cubin;
  std::vector<CudaKernel> kernels;
};

struct CudaOptions {
  std::string arch = "sm_90a";
  std::string only;  ///< regular expression of names; empty for all
  bool pairs = true;
  std::string disassembler;  ///< as in sass::InputOptions
  std::function<void(double done, double total, const std::string& what)> progress;
};

/// Architectures that probes are compiled for.
[[nodiscard]] const std::vector<std::string>& cuda_archs();

/// PTX of the chosen probes for `options.arch`, and the kernels that it holds (not proved yet). Errors:
/// kInvalidArgument, naming what exists, for an unknown arch or an `only` that matches nothing.
Result<std::pair<std::string, std::vector<CudaKernel>>> write_ptx(const CudaOptions& options);

/// Compiles and proves. Errors: those of write_ptx; kUnsupported where there is no ptxas.
Result<CudaModule> build_cuda(const CudaOptions& options);

/// Counts each kernel's opcodes in the longest loop of its SASS. Kernels that the cubin lacks stay unproved.
Result<void> prove(CudaModule& module, const CudaOptions& options);

/// Runs every proved kernel on one SM of device 0. Values: lanes a clock an SM (32 a warp instruction), latencies in
/// cycles. Errors: kUnsupported where there is no driver, no device, or one of another architecture.
Result<Model> measure_cuda(const CudaModule& module, const CudaOptions& options);

}  // namespace pinch::probe
