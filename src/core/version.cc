#include "pinch/version.h"

namespace pinch {

std::string_view version() {
  return PINCH_VERSION;
}
std::string_view git_sha() {
  return PINCH_GIT_SHA;
}

std::string_view compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

}  // namespace pinch
