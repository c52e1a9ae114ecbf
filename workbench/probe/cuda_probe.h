// Probes of GPU instructions: PTX loops made from a list, compiled by ptxas, proved in their SASS by our own reader,
// and timed with the SM's clock where there is a device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pinch/result.h"
#include "workbench/probe/cuda_device.h"
#include "workbench/probe/model.h"
#include "workbench/probe/proof.h"

namespace pinch::probe {

/// What an operation hands to the next of its chain.
enum class Chain {
  kInteger,    ///< a .b32
  kFloat,      ///< a .f32
  kDouble,     ///< a .b64
  kShared,     ///< an address of shared memory, whose word holds it again
  kGlobal,     ///< the same of global memory
  kProduct,    ///< the four .f32 of a warp's product
  kWarpgroup,  ///< the `columns` / 2 .f32 of a warpgroup's product
  kBarrier,    ///< nothing: all threads wait for each other
  kBulk,       ///< the parity of the barrier that counts a copy's bytes
};

/// What shared memory holds, so that a load of its own address gives that address again, free of bank conflicts.
enum class Words {
  k4Bytes,      ///< every word its own address
  k8Bytes,      ///< that of its 8 bytes
  k16Bytes,     ///< that of its 16 bytes
  kMatrix,      ///< word i of 32 the address of row i: what lane i of `ldmatrix` gets
  kTransposed,  ///< the same for `ldmatrix.trans`, whose lanes get one half-word of each of two rows
};

inline constexpr int kBulkBytes = 32768;  ///< of shared memory, for all copies in flight

struct CudaProbe {
  std::string name;         ///< "ex2.f32"
  std::string opcode;       ///< of SASS, with all its modifiers as nvdisasm names them: "MUFU.EX2.F16"
  std::string also = {};    ///< another that counts as it, where the operation takes both: "HFMA2.MMA"
  std::string beside = {};  ///< what tells two operations of one opcode apart; so many an operation, and an iteration:
  int beside_per_op = 0, beside_per_loop = 0;
  Chain chain = Chain::kInteger;
  /// {c} the chain; {f} {h} invariant floats, {r} {s} integers, {p} {q} pairs of floats; {x} float, {i} {j} {o} 32-bit,
  /// {k} {l} 16-bit, {b} 8-bit and {t} predicate scratch; {m} the floats of a product and {m0} {m1} {m2} the first of
  /// them, {a} its four registers of A, {u} {v} its matrix descriptors. Of a copy: {i} where in shared memory, {j} its
  /// barrier, {y} where in global memory, {n} copies that may be in flight beside it.
  std::string ptx;
  int per_op = 1;                 ///< of `opcode` and `also` an operation
  int chained = 1;                ///< of those, how many wait for each other
  int min_sm = 80, max_sm = 999;  ///< the same name may stand for other code on other architectures
  int most_chains = 16;
  int columns = 0;  ///< N of a warpgroup's product
  int bytes = 0;    ///< of a bulk copy
  Words words = Words::k16Bytes;

  /// Floats of one product that a thread holds.
  [[nodiscard]] int accumulators() const {
    return chain == Chain::kWarpgroup ? columns / 2 : chain == Chain::kProduct ? 4 : 0;
  }
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
  std::string refused;        ///< what ptxas said where it does not compile the probe
  [[nodiscard]] bool proved() const;
  /// Sizes of the block that is timed, ascending. A product of a warpgroup takes the registers of one, and one thread
  /// issues copies.
  [[nodiscard]] std::vector<int> thread_counts() const;
};

struct CudaModule {
  std::string arch;           ///< "sm_90a"
  std::string ptxas;          ///< its release, as it says
  std::string names;          ///< what named the opcodes: "nvdisasm" or "opcode map"
  std::string nvdisasm = {};  ///< the release of the former
  std::shared_ptr<const std::string> cubin;
  std::vector<CudaKernel> kernels;
};

struct CudaOptions {
  const std::vector<CudaProbe>* probes = &cuda_probes();
  std::string arch = "sm_90a";
  std::string only;  ///< regular expression of names; empty for all
  bool pairs = true;
  std::string disassembler;  ///< as in sass::InputOptions
  double deadline_s = 30;    ///< of one probe on the device
  std::function<void(double done, double total, const std::string& what)> progress;
};

/// Architectures that probes are compiled for.
[[nodiscard]] const std::vector<std::string>& cuda_archs();

/// Independent chains of each of two instructions that are mixed.
inline constexpr int kPairChains = 4;

/// The kernels of the chosen probes, not proved yet: for each number of chains a shorter loop and one of twice its
/// operations. Errors: kInvalidArgument, naming what exists, for an unknown arch or an `only` that matches nothing.
Result<std::vector<CudaKernel>> choose_kernels(const CudaOptions& options);

/// Their PTX, for `arch`.
[[nodiscard]] std::string ptx_of(const std::string& arch, const std::vector<CudaKernel>& kernels);

/// Compiles and proves. A probe that ptxas refuses is not proved and costs no other. Errors: those of choose_kernels;
/// kUnsupported where there is no ptxas; kInvalidArgument where it refuses all.
Result<CudaModule> build_cuda(const CudaOptions& options);

/// Counts each kernel's opcodes in the longest loop of its SASS. Kernels that the cubin lacks stay unproved.
Result<void> prove(CudaModule& module, const CudaOptions& options);

/// Runs every proved kernel on one SM of the device. Values: lanes a clock an SM (32 a warp instruction), latencies in
/// cycles. A probe that the device breaks off, or that takes longer than the deadline, has no value and says why; the
/// next one runs in a fresh process. Errors: kUnsupported where there is no driver, no device, or one of another
/// architecture.
Result<Model> measure_cuda(const CudaModule& module, const CudaOptions& options,
                           const OpenCudaDevice& open = CudaDevice::open);

}  // namespace pinch::probe
