// What a trace of the CPU product calls things. Plain enums: their numbers are what the marks take.
#pragma once

namespace pinch::detail {

namespace GemmRole {
enum : unsigned { kPack, kDecode, kMultiply, kStore, kStream, kJoin };
}
namespace GemmWait {
enum : unsigned { kPacked, kMultiplied, kOthers };
}
namespace GemmPhase {
enum : unsigned { kStore };
}

}  // namespace pinch::detail
