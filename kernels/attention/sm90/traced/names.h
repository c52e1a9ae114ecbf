// What a trace of the attention kernel calls things. Plain enums: their numbers are what the marks take.
#pragma once

namespace pinch::attention::sm90 {

// A step of each is a key tile, of kEpilogue a query tile. A consumer warp alternates: kProduct issues the products and
// waits for the scores, kSoftmax turns them into P while the product of the tile before runs.
namespace TraceRole {
enum : unsigned { kProducer, kProduct, kSoftmax, kEpilogue, kDecoder };
}
namespace TraceWait {
enum : unsigned { kQueries, kKeys, kValues, kTurn, kEmpty, kCodes, kCodesEmpty };
}
namespace TracePhase {
enum : unsigned { kIssue, kScores, kExponentials, kDrain, kWrite };
}

}  // namespace pinch::attention::sm90
