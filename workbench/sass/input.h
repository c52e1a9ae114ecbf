// From a path to a Program: tells the kinds of file apart and uses what tools there are.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/result.h"
#include "workbench/sass/program.h"

namespace pinch::sass {

struct InputOptions {
  std::vector<std::string> archs = {"sm_90a"};  ///< what .cu and .ptx are compiled for
  int opt_level = 3;                            ///< of ptxas, 0 to 3
  /// Path of nvdisasm; "none": the opcode map; empty: one that is found, and the opcode map where there is none or it
  /// fails, which the program's notes say.
  std::string disassembler;
  /// Of a kernel's name: kernels that it refuses are left out before their code is disassembled, which is what takes
  /// long. Empty: all.
  std::function<bool(std::string_view)> wants;
};

/// Reads `path`: a cubin, a fatbin, a host object or executable with device code, SASS text, .ptx or .cu.
/// Errors name the file, what it is and what is accepted: kNotFound, kIo, kCorrupt, kInvalidArgument (a kind that is
/// not read; no kernel in it; a compile or a disassembler asked for that failed), kUnsupported (no nvcc or ptxas for
/// .cu or .ptx). A program is without kernels only where `wants` refused all that the file has.
Result<Program> read_program(const std::string& path, const InputOptions& options);

/// The same for bytes in memory, without outside programs: cubins, fatbins, host ELFs and SASS text.
Result<Program> read_program_bytes(std::shared_ptr<const std::string> bytes, const std::string& name,
                                   const InputOptions& options);

}  // namespace pinch::sass
