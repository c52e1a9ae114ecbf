// Cubins and the fatbins inside host ELF files.
#pragma once

#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/sass/bytes.h"
#include "workbench/sass/program.h"

namespace pinch::sass {

[[nodiscard]] bool is_elf(Bytes bytes);
/// True for an ELF of the CUDA machine (e_machine 190).
[[nodiscard]] bool is_cubin(Bytes bytes);

/// Kernels of a cubin: words, control fields, registers, frame, shared memory, barriers, exits, arch, and the source
/// lines of -lineinfo, whose files are views into `bytes`. Mnemonics are left empty. `name` is the file, for messages.
/// Errors: kCorrupt, naming file and offset, where a table or section lies outside the file or has an impossible size,
/// and where two sections hold code of one name.
Result<std::vector<Kernel>> read_cubin(Bytes bytes, const std::string& name);

/// The bytes of every section `.nv_fatbin` and `__nv_relfatbin` of a host ELF.
/// Errors: kCorrupt as above; kInvalidArgument where the file holds no device code.
Result<std::vector<Bytes>> fatbin_sections(Bytes bytes, const std::string& name);

}  // namespace pinch::sass
