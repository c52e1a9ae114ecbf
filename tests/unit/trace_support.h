// Traces of a producer and a consumer, for the tests.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/trace_builder.h"
#include "workbench/trace/analysis.h"
#include "workbench/trace/reader.h"

namespace pinch::trace {

inline constexpr unsigned kProducer = 0, kConsumer = 1;
inline constexpr unsigned kSlot = 0, kFull = 1;

inline test::TraceBuilder two_roles() {
  test::TraceBuilder builder;
  builder.names = {{{"producer"}, {"consumer", true}}, {{"slot", 1}, {"P", 0}}, {"load", "store"}};
  return builder;
}

inline TraceFile parsed(const std::vector<std::byte>& bytes) {
  auto file = TraceFile::parse(bytes, "t");
  EXPECT_TRUE(file.ok()) << file.error().message();
  return std::move(*file);
}

inline Analysis analysed(const test::TraceBuilder& builder) {
  const auto bytes = builder.bytes();
  auto result = analyse(parsed(bytes));
  EXPECT_TRUE(result.ok()) << result.error().message();
  return *result;
}

// `count` steps of equal length that end in a wait.
inline void steps(test::TraceTrack& track, unsigned role, std::uint64_t begin, std::uint64_t period, unsigned count,
                  unsigned wait, std::uint64_t waited) {
  for (unsigned i = 0; i < count; ++i) {
    track.step(begin + i * period, role, i);
    if (waited > 0) track.wait(begin + (i + 1) * period, wait, waited);
  }
  track.end(begin + count * period);
}

}  // namespace pinch::trace
