// Reads disassembly text of nvdisasm and cuobjdump, with or without words, labels, line marks and annotations.
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
/// Errors: kCorrupt, naming file and line, for a text without instructions, a word without its second half, offsets
/// that do not rise, or a branch to nowhere.
Result<Program> read_sass_text(std::shared_ptr<const std::string> text, const std::string& name);

}  // namespace pinch::sass
