// Reports as text for people: the table, and the listing with decoded control codes.
#pragma once

#include <string>

#include "workbench/sass/analysis.h"

namespace pinch::sass {

[[nodiscard]] std::string table(const KernelReport& report, const AnalysisOptions& options);

/// Every instruction as "offset [B..:R.:W.:Y:S..] guard mnemonic operands", loops marked in the margin by their depth.
/// Where the text held no words the control code is "[no control word]".
[[nodiscard]] std::string listing(const Kernel& kernel, const Flow& flow);

}  // namespace pinch::sass
