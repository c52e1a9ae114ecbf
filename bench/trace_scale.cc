// trace_scale [MILLIONS] [FILE]: writes a trace of so many million events and analyses it: seconds, and the most memory
// held.
#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "pinch/trace.h"
#include "workbench/trace/analysis.h"
#include "workbench/trace/cost.h"
#include "workbench/trace/report.h"

namespace {

using namespace pinch::trace;

constexpr std::uint32_t kTracks = 132 * 4;  // SMs and warps

// Producers and consumers whose periods vary by a fixed rule; written in blocks, so that this side holds little.
void write(const std::string& path, std::uint64_t events) {
  const std::uint64_t of_track = events / kTracks, steps = of_track / 2;
  FileHeader header;
  header.level = 1;
  header.clock_bits = 64;
  header.flags = kReportCycles;
  std::vector<TrackEntry> tracks(kTracks);
  for (std::uint32_t t = 0; t < kTracks; ++t) {
    tracks[t].group = tracks[t].unit = t / 4;
    tracks[t].index = t % 4;
    tracks[t].begin_ticks = 1000 * t;
    tracks[t].begin_ns = 5000;
    tracks[t].end_ticks = tracks[t].begin_ticks + steps * 1000;
    tracks[t].end_ns = 5000 + steps * 500;
    tracks[t].emitted = 2 * steps + 1;
  }
  FileWriter writer(path, header, {{{"producer"}, {"mma", true}}, {{"slot", 1}, {"P", 0}}, {}}, {}, tracks);
  std::vector<Event> block;
  for (std::uint32_t t = 0; t < kTracks; ++t) {
    block.clear();
    for (std::uint64_t s = 0; s < steps; ++s) {
      const std::uint64_t at = tracks[t].begin_ticks + s * 1000 + s * 7919 % 50;
      block.push_back({at, static_cast<std::uint32_t>(s), static_cast<std::uint16_t>(t % 2), 1, 0});
      block.push_back({at + 300, 300, static_cast<std::uint16_t>(t % 2), 2, 0});
    }
    block.push_back({tracks[t].end_ticks, 0, 0, 4, 0});
    writer.block(t, 0, block.data(), block.size());
  }
  if (!writer.done()) fmt::print(stderr, "cannot write {}\n", path);
}

}  // namespace

int main(int argc, char** argv) {
  const double millions = argc > 1 ? std::atof(argv[1]) : 50;
  const std::string path = argc > 2 ? argv[2] : (std::filesystem::temp_directory_path() / "pinch_trace_scale").string();
  write(path, static_cast<std::uint64_t>(millions * 1e6));
  const std::uint64_t begin = wall_ns();
  const auto file = TraceFile::open(path);
  const auto report = file ? analyse(*file) : file.error();
  const double seconds = static_cast<double>(wall_ns() - begin) * 1e-9;
  if (!report) {
    fmt::print(stderr, "{}\n", report.error().message());
    return 1;
  }
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  fmt::print("{}{} events in {:.1f} s, at most {} MiB held\n", to_table(*report, {}), report->events, seconds,
             usage.ru_maxrss / 1024);
  std::filesystem::remove(path);
  return 0;
}
