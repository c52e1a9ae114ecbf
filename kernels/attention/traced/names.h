// What a trace of the CPU driver calls things. Plain enums: their numbers are what the marks take.
#pragma once

namespace pinch::attention {

namespace TraceRole {
enum : unsigned { kPack, kQueries, kScores, kSoftmax, kProduct, kStore, kJoin };
}
namespace TraceWait {
enum : unsigned { kPacked, kOthers };
}
namespace TracePhase {
enum : unsigned { kKeys, kValues };
}

}  // namespace pinch::attention
