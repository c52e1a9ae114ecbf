// Work done in order in a process of its own, so that an item which crashes, hangs or spoils the process's state (an
// error of a CUDA context stays until the process ends) costs only itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pinch/result.h"

namespace pinch::probe {

/// Does items 0 to count - 1 in a forked process; after one that failed, died or took longer than `deadline_s`, the
/// next begins in a fresh one, a copy of this process as it was at the call. `begun` is called here before each item.
/// Returns what each item gave, or why it gave nothing: its own error, or kUnsupported with how the process ended.
std::vector<Result<std::string>> run_apart(int count, const std::function<Result<std::string>(int item)>& work,
                                           double deadline_s, const std::function<void(int item)>& begun);

}  // namespace pinch::probe
