// What a trace of the wgmma kernel calls things. Plain enums: their numbers are what the marks take.
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

}  // namespace pinch::gemm_bf16_fp4::sm90
