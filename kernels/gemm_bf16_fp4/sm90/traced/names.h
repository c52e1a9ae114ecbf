// What a trace of the wgmma kernel and of the streaming one calls things. Plain enums: their numbers are what the marks
// take.
#pragma once

namespace pinch::gemm_bf16_fp4::sm90 {

namespace TraceRole {
enum : unsigned { kProducer, kConsumer, kEpilogue };
}
namespace TraceWait {
enum : unsigned { kEmpty, kFull };
}
namespace TracePhase {
enum : unsigned { kIssue, kDrain, kDecode };
}

// Of the streaming kernel: a step of kStream is in_flight k tiles of a warp, of kJoin a row group that its team adds
// up.
namespace StreamRole {
enum : unsigned { kStream, kJoin };
}
namespace StreamWait {
enum : unsigned { kActivations, kWeights, kTeam, kSums };
}
namespace StreamPhase {
enum : unsigned { kMultiply };
}

}  // namespace pinch::gemm_bf16_fp4::sm90
