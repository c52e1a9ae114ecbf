#include "workbench/probe/cpu_code.h"

#include <Zydis/Zydis.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace pinch::probe {
namespace {

// A loop is called as f(constants, iterations, buffer): rdi, rsi and rdx of the System V ABI.
constexpr ZydisRegister kConstants = ZYDIS_REGISTER_RDI, kIterations = ZYDIS_REGISTER_RSI, kBuffer = ZYDIS_REGISTER_RDX;
constexpr std::size_t kLoopAlignment = 64;

std::optional<ZydisMnemonic> mnemonic_named(const std::string& name) {
  for (int m = 1; m <= ZYDIS_MNEMONIC_MAX_VALUE; ++m) {
    const char* text = ZydisMnemonicGetString(static_cast<ZydisMnemonic>(m));
    if (text != nullptr && name == text) return static_cast<ZydisMnemonic>(m);
  }
  return std::nullopt;
}

class Assembler {
 public:
  bool emit(ZydisMnemonic mnemonic, int bits, std::initializer_list<ZydisEncoderOperand> operands) {
    ZydisEncoderRequest request;
    std::memset(&request, 0, sizeof request);
    request.machine_mode = ZYDIS_MACHINE_MODE_LONG_64;
    request.mnemonic = mnemonic;
    if (bits == 512) request.allowed_encodings = ZYDIS_ENCODABLE_ENCODING_EVEX;
    if (bits == 256) request.allowed_encodings = ZYDIS_ENCODABLE_ENCODING_VEX;
    bool first = true;
    for (const ZydisEncoderOperand& operand : operands) {
      request.operands[request.operand_count++] = operand;
      // EVEX has a mask behind its destination: k0 for none.
      if (first && bits == 512) request.operands[request.operand_count++] = reg(ZYDIS_REGISTER_K0);
      first = false;
    }
    std::array<ZyanU8, ZYDIS_MAX_INSTRUCTION_LENGTH> encoded;
    ZyanUSize length = encoded.size();
    if (!ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(&request, encoded.data(), &length))) return false;
    code.insert(code.end(), encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(length));
    return true;
  }

  void align(std::size_t to) { code.resize((code.size() + to - 1) / to * to, 0x90); }

  static ZydisEncoderOperand reg(ZydisRegister which) {
    ZydisEncoderOperand operand{};
    operand.type = ZYDIS_OPERAND_TYPE_REGISTER;
    operand.reg.value = which;
    return operand;
  }
  static ZydisEncoderOperand vec(int bits, int index) {
    return reg(static_cast<ZydisRegister>((bits == 512 ? ZYDIS_REGISTER_ZMM0 : ZYDIS_REGISTER_YMM0) + index));
  }
  static ZydisEncoderOperand mem(ZydisRegister base, std::int64_t offset, int bytes) {
    ZydisEncoderOperand operand{};
    operand.type = ZYDIS_OPERAND_TYPE_MEMORY;
    operand.mem.base = base;
    operand.mem.displacement = offset;
    operand.mem.size = static_cast<ZyanU16>(bytes);
    return operand;
  }
  static ZydisEncoderOperand imm(std::int64_t value) {
    ZydisEncoderOperand operand{};
    operand.type = ZYDIS_OPERAND_TYPE_IMMEDIATE;
    operand.imm.s = value;
    return operand;
  }

  std::vector<std::uint8_t> code;
};

int registers_of(int bits) {
  return bits == 512 ? 32 : 16;
}

bool emit_step(Assembler& as, ZydisMnemonic m, const CpuOperation& op, int chain, int index) {
  const int bits = op.bits, bytes = bits / 8;
  const auto c = Assembler::vec(bits, chain), a = Assembler::vec(bits, registers_of(bits) - 1),
             b = Assembler::vec(bits, registers_of(bits) - 2);
  const auto next = Assembler::mem(kBuffer, std::int64_t{index} * kVectorBytes, bytes);
  switch (op.form) {
    case Form::kAccumulate:
      return as.emit(m, bits, {c, a, b});
    case Form::kBinary:
      return as.emit(m, bits, {c, c, a});
    case Form::kUnary:
      return as.emit(m, bits, {c, c});
    case Form::kShift:
      return as.emit(m, bits, {c, c, Assembler::imm(1)});
    case Form::kNarrow:
      return as.emit(m, bits, {Assembler::vec(256, chain), c});
    case Form::kLoad:
    case Form::kStream:
      return as.emit(m, bits, {c, next});
    case Form::kStore:
      return as.emit(m, bits, {next, c});
    case Form::kChase:
      return as.emit(m, bits, {Assembler::reg(kBuffer), Assembler::mem(kBuffer, 0, 8)});
  }
  return false;
}

// Ones as 32-bit floats in every register: no operation of the list makes a denormal, a NaN or a slow case of them.
const void* constants() {
  alignas(kVectorBytes) static const std::array<float, kVectorBytes / 4> ones = [] {
    std::array<float, kVectorBytes / 4> made{};
    made.fill(1.0f);
    return made;
  }();
  return ones.data();
}

struct Decoded {
  std::size_t at = 0;
  ZydisDecodedInstruction instruction;
  std::vector<ZydisDecodedOperand> operands;  // that are written out, without the mask of EVEX
};

// The instructions of the shortest loop of a function, up to its branch.
std::vector<Decoded> loop_of(std::span<const std::uint8_t> function) {
  std::vector<Decoded> code;
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  std::size_t top = 0, bottom = 0;  // [top, bottom)
  for (std::size_t at = 0; at < function.size();) {
    Decoded d;
    std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, function.data() + at, function.size() - at, &d.instruction,
                                             operands.data())))
      break;
    d.at = at;
    ZyanU64 target = 0;
    const bool jumps = d.instruction.meta.category == ZYDIS_CATEGORY_COND_BR && d.instruction.operand_count > 0 &&
                       ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&d.instruction, operands.data(), at, &target));
    if (jumps && target <= at && (bottom == 0 || at - target < bottom - top)) {
      top = static_cast<std::size_t>(target);
      bottom = at;
    }
    std::copy_if(operands.begin(), operands.begin() + d.instruction.operand_count_visible,
                 std::back_inserter(d.operands), [](const ZydisDecodedOperand& o) {
                   return o.type != ZYDIS_OPERAND_TYPE_REGISTER ||
                          ZydisRegisterGetClass(o.reg.value) != ZYDIS_REGCLASS_MASK;
                 });
    at += d.instruction.length;
    const bool returns = d.instruction.mnemonic == ZYDIS_MNEMONIC_RET;
    code.push_back(std::move(d));
    if (returns && bottom != 0) break;
  }
  std::erase_if(code, [&](const Decoded& d) { return d.at < top || d.at >= bottom; });
  return code;
}

// A register, whatever part of it is named: xmm3, ymm3 and zmm3 are one.
int key_of(ZydisRegister which) {
  constexpr int kVectors = 64;
  const ZydisRegisterClass of = ZydisRegisterGetClass(which);
  const bool is_vector = of == ZYDIS_REGCLASS_XMM || of == ZYDIS_REGCLASS_YMM || of == ZYDIS_REGCLASS_ZMM;
  return (is_vector ? kVectors : 0) + ZydisRegisterGetId(which);
}

bool is_register(const ZydisDecodedOperand& o) {
  return o.type == ZYDIS_OPERAND_TYPE_REGISTER;
}

bool is_memory(const ZydisDecodedOperand& o) {
  return o.type == ZYDIS_OPERAND_TYPE_MEMORY;
}

std::set<int> registers_read(const Decoded& d) {
  std::set<int> read;
  for (const ZydisDecodedOperand& o : d.operands) {
    if (is_register(o) && (o.actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0) read.insert(key_of(o.reg.value));
    if (is_memory(o) && o.mem.base != ZYDIS_REGISTER_NONE) read.insert(key_of(o.mem.base));
  }
  return read;
}

bool has_chain(Form form) {
  return form != Form::kLoad && form != Form::kStore && form != Form::kStream;
}

// "vmovups store of 512 bits".
std::string shape_of(const char* mnemonic, bool stores, bool loads, int bits) {
  return fmt::format("{}{} of {} bits", mnemonic, stores ? " store" : loads ? " load" : "", bits);
}

std::string shape_of(const CpuOperation& operation) {
  const Form form = operation.form;
  return shape_of(operation.mnemonic, form == Form::kStore, !has_chain(form) || form == Form::kChase, operation.bits);
}

// By its widest register.
std::string shape_of(const Decoded& d) {
  int bits = 0;
  bool stores = false, loads = false;
  for (const ZydisDecodedOperand& o : d.operands) {
    if (is_register(o)) bits = std::max<int>(bits, o.size);
    if (is_memory(o)) (&o == d.operands.data() ? stores : loads) = true;
  }
  return shape_of(ZydisMnemonicGetString(d.instruction.mnemonic), stores, loads, bits);
}

// At its width and in its form, with all of its lanes: no mask, no broadcast; and one of a chain reads what it writes.
bool is_of(const Decoded& d, const CpuOperation& operation) {
  const auto& avx = d.instruction.avx;
  const bool masked = avx.mask.reg != ZYDIS_REGISTER_NONE && avx.mask.reg != ZYDIS_REGISTER_K0;
  if (masked || avx.broadcast.mode != ZYDIS_BROADCAST_MODE_INVALID || shape_of(d) != shape_of(operation)) return false;
  if (has_chain(operation.form)) return registers_read(d).count(key_of(d.operands[0].reg.value)) > 0;
  const auto memory = std::find_if(d.operands.begin(), d.operands.end(), is_memory);
  return memory->size == operation.bits;
}

}  // namespace

int most_chains(int bits) {
  return bits == 512 ? 16 : 12;
}

Result<CpuLoop> CpuLoop::assemble(std::span<const Part> parts, int length) {
#if !defined(__x86_64__)
  return Error{ErrorCode::kUnsupported, "CPU probes are x86-64 code; this machine is something else", ""};
#endif
  Assembler as;
  int widest = 64;
  std::vector<ZydisMnemonic> mnemonics;
  std::vector<int> first_register;
  int next_register = 0;
  bool streams = false;
  for (const Part& part : parts) {
    const auto mnemonic = mnemonic_named(part.operation.mnemonic);
    if (!mnemonic)
      return Error{ErrorCode::kInvalidArgument, "not an x86-64 mnemonic that Zydis knows", part.operation.mnemonic};
    mnemonics.push_back(*mnemonic);
    first_register.push_back(next_register);
    next_register += part.chains;
    widest = std::max(widest, part.operation.bits);
    streams |= part.operation.form == Form::kStream;
  }
  if (next_register > most_chains(widest))
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} chains; {} fit beside the constants", next_register, most_chains(widest)), ""};
  bool encoded = true;
  for (int r = 0; widest > 64 && r < registers_of(widest); ++r) {
    encoded &=
        as.emit(ZYDIS_MNEMONIC_VMOVUPS, widest, {Assembler::vec(widest, r), Assembler::mem(kConstants, 0, widest / 8)});
  }
  as.align(kLoopAlignment);
  const std::size_t top = as.code.size();
  const int count = static_cast<int>(parts.size());
  for (int i = 0; i < length && encoded; ++i) {
    const int p = i % count;
    const Part& part = parts[static_cast<std::size_t>(p)];
    encoded = emit_step(as, mnemonics[static_cast<std::size_t>(p)], part.operation,
                        first_register[static_cast<std::size_t>(p)] + i / count % part.chains, i);
    if (!encoded)
      return Error{ErrorCode::kInvalidArgument, fmt::format("no encoding at {} bits", part.operation.bits),
                   part.operation.mnemonic};
  }
  if (streams)
    encoded &=
        as.emit(ZYDIS_MNEMONIC_ADD, 64, {Assembler::reg(kBuffer), Assembler::imm(std::int64_t{length} * kVectorBytes)});
  encoded &= as.emit(ZYDIS_MNEMONIC_SUB, 64, {Assembler::reg(kIterations), Assembler::imm(1)});
  // A branch counts from its own end: two bytes with a short displacement, six with a long one.
  const auto back = [&](std::size_t size) { return -static_cast<std::int64_t>(as.code.size() + size - top); };
  encoded &= as.emit(ZYDIS_MNEMONIC_JNZ, 64, {Assembler::imm(back(2) >= -128 ? back(2) : back(6))});
  if (widest > 64) encoded &= as.emit(ZYDIS_MNEMONIC_VZEROUPPER, 64, {});
  encoded &= as.emit(ZYDIS_MNEMONIC_RET, 64, {});
  if (!encoded) return Error{ErrorCode::kInvalidArgument, "the loop around the instructions cannot be encoded", ""};

  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t mapped = (as.code.size() + page - 1) / page * page;
  void* memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return Error{ErrorCode::kIo, fmt::format("no memory for code: {}", std::strerror(errno)), ""};
  std::memcpy(memory, as.code.data(), as.code.size());
  CpuLoop loop(memory, mapped, as.code.size());
  if (::mprotect(memory, mapped, PROT_READ | PROT_EXEC) != 0)
    return Error{ErrorCode::kIo, fmt::format("memory cannot be made executable: {}", std::strerror(errno)), ""};
  return loop;
}

CpuLoop::CpuLoop(CpuLoop&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), mapped_(other.mapped_), size_(other.size_) {}

CpuLoop::~CpuLoop() {
  if (memory_ != nullptr) ::munmap(memory_, mapped_);
}

void CpuLoop::run(std::int64_t iterations, void* buffer) const {
  using Function = void (*)(const void*, std::int64_t, void*);
  reinterpret_cast<Function>(memory_)(constants(), iterations, buffer);
}

std::span<const std::uint8_t> CpuLoop::bytes() const {
  return {static_cast<const std::uint8_t*>(memory_), size_};
}

std::string assembler_version() {
  const ZyanU64 v = ZydisGetVersion();
  return fmt::format("{}.{}.{}", ZYDIS_VERSION_MAJOR(v), ZYDIS_VERSION_MINOR(v), ZYDIS_VERSION_PATCH(v));
}

Proof prove(std::span<const std::uint8_t> function, const Part& part, int expected) {
  const CpuOperation& operation = part.operation;
  Proof proof;
  proof.opcode = shape_of(operation);
  proof.expected = expected;
  std::map<std::string, int> others;
  int counters = 0;  // the loop's own: one subtraction, or a decrement; and the step of a stream
  std::set<int> chains, read, written;
  for (const Decoded& d : loop_of(function)) {
    const std::string name = ZydisMnemonicGetString(d.instruction.mnemonic);
    if (is_of(d, operation)) {
      ++proof.found;
      if (!has_chain(operation.form)) continue;
      const int own = key_of(d.operands[0].reg.value);
      chains.insert(own);
      for (const int other : registers_read(d)) {
        if (other != own) read.insert(other);
      }
    } else if ((name == "sub" || name == "dec" || name == "add" || name == "cmp") && counters < 2) {
      ++counters;
      continue;
    } else {
      ++others[name == operation.mnemonic ? shape_of(d) : name];
      ++proof.others;
    }
    if (d.operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER) written.insert(key_of(d.operands[0].reg.value));
  }
  const bool waits = std::any_of(read.begin(), read.end(), [&](int r) { return written.count(r) > 0; });
  if (has_chain(operation.form)) {
    proof.beside = waits ? "chains that wait for no other" : "chains";
    proof.beside_expected = part.chains;
    proof.beside_found = waits ? 0 : static_cast<int>(chains.size());
  }
  int most = 0;
  for (const auto& [name, count] : others) {
    if (count <= most) continue;
    most = count;
    proof.instead = fmt::format("{} x {}", name, count);
  }
  return proof;
}

}  // namespace pinch::probe
