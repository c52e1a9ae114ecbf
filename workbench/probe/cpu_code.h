// Loops of chosen x86-64 instructions, assembled at run time and proved by decoding their own bytes (Zydis).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/probe/proof.h"

namespace pinch::probe {

/// How an instruction uses its chain (a register that it reads and writes) and its constants.
enum class Form {
  kAccumulate,  ///< chain += f(constant, constant)
  kBinary,      ///< chain = f(chain, constant)
  kUnary,       ///< chain = f(chain)
  kShift,       ///< chain = f(chain, 1)
  kNarrow,      ///< lower half of chain = f(chain)
  kLoad,        ///< chain = next vector of the buffer
  kStore,       ///< next vector of the buffer = chain
  kStream,      ///< kLoad, and the buffer moves on with every iteration
  kChase,       ///< pointer = [pointer]
};

struct CpuOperation {
  const char* mnemonic;  ///< as the Intel manual spells it, lower case
  Form form;
  int bits;  ///< 512 (EVEX), 256 (VEX) or 64
};

/// One operation in `chains` registers that depend on nothing but themselves.
struct Part {
  CpuOperation operation;
  int chains = 1;
};

inline constexpr int kVectorBytes = 64;
/// Independent chains that fit beside the constants: 16 at 512 bits, 12 at 256.
[[nodiscard]] int most_chains(int bits);

/// A loop of `length` instructions that takes the parts in turn, in memory of its own that is executable and not
/// writable.
class CpuLoop {
 public:
  /// Errors: kInvalidArgument for a mnemonic or form that cannot be encoded, kUnsupported off x86-64, kIo.
  static Result<CpuLoop> assemble(std::span<const Part> parts, int length);

  CpuLoop(CpuLoop&& other) noexcept;
  CpuLoop& operator=(CpuLoop&&) = delete;
  ~CpuLoop();

  /// Runs the loop. `buffer`: what loads and stores touch, or the pointer that a chase begins with.
  void run(std::int64_t iterations, void* buffer) const;
  [[nodiscard]] std::span<const std::uint8_t> bytes() const;

 private:
  CpuLoop(void* memory, std::size_t mapped, std::size_t size) : memory_(memory), mapped_(mapped), size_(size) {}
  void* memory_ = nullptr;
  std::size_t mapped_ = 0, size_ = 0;
};

/// Of the assembler and disassembler, "4.0.0".
[[nodiscard]] std::string assembler_version();

/// Decodes a function's bytes up to its return and counts in its innermost loop what `part` is: its mnemonic, at its
/// width, without a mask, with operands of its form, so that a store is no load. Where an operation has a chain, each
/// must read what it writes and nothing that another writes, and there must be `part.chains` of them.
[[nodiscard]] Proof prove(std::span<const std::uint8_t> function, const Part& part, int expected);

}  // namespace pinch::probe
