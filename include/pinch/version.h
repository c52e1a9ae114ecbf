// Which build of Pinch this is.
#pragma once

#include <string_view>

namespace pinch {

std::string_view version();   ///< "0.1.0"
std::string_view git_sha();   ///< revision of the sources at configure time, or "unknown"
std::string_view compiler();  ///< "gcc 12.2.0"

}  // namespace pinch
