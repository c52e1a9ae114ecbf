// Any bytes are either refused with the byte at fault, or give steps in order and a report whose shares are shares.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/fuzz/require.h"
#include "workbench/trace/analysis.h"
#include "workbench/trace/reader.h"
#include "workbench/trace/steps.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pinch::trace;
  const auto file = TraceFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file.ok()) {
    require(file.error().code == pinch::ErrorCode::kCorrupt);
    require(file.error().where.rfind("fuzz: byte ", 0) == 0);
    return 0;
  }
  std::uint64_t steps = 0;
  for (std::size_t t = 0; t < file->tracks().size(); ++t) {
    StepReader reader(*file, t);
    std::uint64_t at = 0;
    while (const Step* step = reader.next()) {
      ++steps;
      require(step->role < file->roles().size() && at <= step->begin && step->begin <= step->end);
      at = step->begin;
      for (const WaitSpan& wait : step->waits) require(at <= wait.begin && wait.begin <= wait.end), at = wait.end;
      require(at <= step->end);
      at = step->end;
    }
    std::uint64_t read = 0;
    EventReader events(*file, t);
    while (events.next()) ++read;
    require(read + events.lost() == file->tracks()[t].emitted);
  }
  const auto report = analyse(*file);
  require(report.ok() == (steps > 0));
  if (!report.ok()) return 0;
  for (const RoleReport& role : report->roles) {
    require(std::isfinite(role.period_median) && std::isfinite(role.period_p99));
    require(role.busy >= -1e-6 && role.busy <= 1 + 1e-6);
    for (const auto& wait : role.waits) require(wait.fraction >= 0 && wait.fraction <= 1 + 1e-6);
  }
  return 0;
}
