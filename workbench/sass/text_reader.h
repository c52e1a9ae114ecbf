// Reads disassembly text of nvdisasm and cuobjdump, with or without words, labels, line marks, life ranges (-plr) and
// annotations; of all sections or of code alone.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pinch/result.h"
#include "workbench/sass/program.h"

namespace pinch::sass {

/// True where the first lines look like SASS text.
[[nodiscard]] bool looks_like_sass_text(std::string_view text);

/// Kernels of `text`. `name` is the file, for messages. Lines may end in LF or CRLF; offsets may pass 0xFFFF.
/// Errors: kCorrupt, naming file and line, for a text without instructions, a row of code that cannot be read, an
/// instruction without a name, a word without its second half or missing beside others, offsets that do not rise or
/// are no multiple of 16, a branch to nowhere, and a kernel whose end falls through: what a cut leaves.
Result<Program> read_sass_text(std::shared_ptr<const std::string> text, const std::string& name);

}  // namespace pinch::sass
