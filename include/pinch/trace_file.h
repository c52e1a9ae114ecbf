// The trace file: what pinch/trace.h (CPU threads) and pinch/trace.cuh (CUDA warps) leave behind, and `pinch trace`
// reads. Standard library only, so that a program which is traced needs nothing else of Pinch.
//
// Little-endian, in this order, nothing between:
//
//   FileHeader       112 bytes
//   NameEntry         64 bytes each: roles, then waits, then phases
//   run times          8 bytes each, header.runs of them: ns of the timed parts of the program, u64
//   TrackEntry        72 bytes each, header.tracks of them: one a thread or warp
//   blocks, until the file ends, in any order: a BlockHeader of 24 bytes and `count` events of 16 bytes
//
// An event is one stamp of a track's own clock:
//
//   kStep    step `value` of role `name` begins; the track's earlier step, if one is open, ends here
//   kWait    a wait `name` ends; it had lasted `value` ticks (all ones: at least that)
//   kPhase   phase `name` of the open step begins
//   kEnd     the open step ends and none follows
//
// Events of a track are numbered from 0 in the order in which they were written; a block holds a run of them. What no
// block holds was lost (`emitted` says how many there were). Clocks may wrap at `clock_bits`.
#pragma once

#ifndef PINCH_TRACE_LEVEL
#define PINCH_TRACE_LEVEL 0
#endif

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace pinch::trace {

static_assert(std::endian::native == std::endian::little, "the file is written as it lies in memory");

/// How much a program was made to record when it was compiled (PINCH_TRACE_LEVEL).
enum class Level : std::uint32_t {
  kOff = 0,       ///< the macros are nothing
  kCoarse = 1,    ///< a stamp a step and one a wait: figures that can be taken as they are
  kDetailed = 2,  ///< a stamp a phase too: shows where a step's time goes, and slows the steps
};

enum class EventKind : std::uint8_t { kStep = 1, kWait = 2, kPhase = 3, kEnd = 4 };

struct Event {
  std::uint64_t ticks = 0;
  std::uint32_t value = 0;
  std::uint16_t name = 0;  ///< index among the roles, waits or phases, by the kind
  std::uint8_t kind = 0;   ///< EventKind; 0 is no event, as a buffer that nobody wrote holds
  std::uint8_t zero = 0;
};

inline constexpr std::uint32_t kAtLeast = 0xffffffff;  ///< Event::value of a wait longer than fits

inline constexpr char kMagic[8] = {'P', 'I', 'N', 'C', 'H', 'T', 'R', 'C'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kBlockMagic = 0x4b434c42;  // "BLCK"
inline constexpr std::uint32_t kMaxNames = 4096;          ///< of one kind

/// FileHeader::flags.
inline constexpr std::uint32_t kReportCycles = 1;  ///< figures in clock ticks, for a GPU; else in ns
inline constexpr std::uint32_t kClockVaries = 2;   ///< the ticks of a second are not constant

struct FileHeader {
  char magic[8] = {};
  std::uint32_t version = 0;
  std::uint32_t level = 0;  ///< Level of the program that wrote it
  std::uint32_t roles = 0;
  std::uint32_t waits = 0;
  std::uint32_t phases = 0;
  std::uint32_t tracks = 0;
  std::uint32_t runs = 0;
  std::uint32_t flags = 0;
  std::uint32_t clock_bits = 0;  ///< a clock wraps at 2^clock_bits ticks; 32 to 64
  std::uint32_t zero = 0;
  std::uint64_t clock_hz = 0;     ///< nominal ticks a second; 0: known from the anchors alone
  std::uint64_t lost_tracks = 0;  ///< threads or warps that found no buffer
  char program[48] = {};          ///< what was traced, for people; zero-padded
};

/// NameEntry::flags of a role.
inline constexpr std::uint32_t kMatrix = 1;  ///< the role that feeds the matrix unit
inline constexpr std::int32_t kNobody = -1;

struct NameEntry {
  char text[48] = {};           ///< zero-padded; at least one zero
  std::int32_t from = kNobody;  ///< of a wait: the role that ends it
  std::uint32_t flags = 0;
  std::uint64_t zero = 0;
};

/// A thread or warp. Two anchors tie its clock to a wall clock that all tracks share. `end_ticks` and `end_ns` are 0
/// where it never said that it had ended.
struct TrackEntry {
  std::uint32_t group = 0;  ///< tracks that wait for one another: a CTA (or cluster), a process
  std::uint32_t unit = 0;   ///< what it ran on: an SM; 0 for threads
  std::uint32_t index = 0;  ///< warp of the CTA, thread of the process
  std::uint32_t zero = 0;
  std::uint64_t begin_ticks = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ticks = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t emitted = 0;  ///< events that the track had, kept or lost
  std::uint64_t zero2[2] = {};
};

struct BlockHeader {
  std::uint32_t magic = 0;
  std::uint32_t track = 0;
  std::uint64_t first = 0;  ///< number of its first event in the track
  std::uint64_t count = 0;
};

static_assert(sizeof(Event) == 16 && sizeof(FileHeader) == 112 && sizeof(NameEntry) == 64);
static_assert(sizeof(TrackEntry) == 72 && sizeof(BlockHeader) == 24);

/// The level that this source file is compiled with. Not inline: files of one program may differ.
constexpr Level kLevel = static_cast<Level>(PINCH_TRACE_LEVEL);
static_assert(PINCH_TRACE_LEVEL >= 0 && PINCH_TRACE_LEVEL <= 2,
              "PINCH_TRACE_LEVEL is 0 (off), 1 (coarse) or 2 (detailed)");

/// What a program calls things. The index of an entry is the number that the macros take.
struct Role {
  const char* name;
  bool matrix = false;  ///< feeds the matrix unit
};
struct Wait {
  const char* name;
  int from = kNobody;  ///< index of the role that ends it
};
struct Names {
  std::vector<Role> roles;
  std::vector<Wait> waits;
  std::vector<const char*> phases;
};

/// An event as a warp stores it: the low word of its clock, and the kind, name and value in 3, 5 and 24 bits.
struct WarpEvent {
  std::uint32_t ticks;
  std::uint32_t what;  // 0: nobody wrote it
};
inline constexpr std::uint32_t kWarpNames = 32, kWarpValues = 1U << 24;

/// The events of a warp up to the first that nobody wrote, in the order of their clocks, which go on from `ticks`: a
/// mark may be stored later than one that came after it. At most 2^31 ticks lie between two that were stored in a row.
inline std::vector<Event> unpacked(const std::vector<WarpEvent>& stored, std::uint64_t ticks) {
  std::vector<Event> events;
  for (const WarpEvent& e : stored) {
    if (e.what == 0) break;
    const auto later = static_cast<std::int32_t>(e.ticks - static_cast<std::uint32_t>(ticks));
    ticks += static_cast<std::uint64_t>(std::int64_t{later});
    const std::uint32_t kind = e.what / (kWarpValues * kWarpNames), value = e.what % kWarpValues;
    const bool capped = kind == static_cast<std::uint32_t>(EventKind::kWait) && value == kWarpValues - 1;
    events.push_back({ticks, capped ? kAtLeast : value, static_cast<std::uint16_t>(e.what / kWarpValues % kWarpNames),
                      static_cast<std::uint8_t>(kind)});
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.ticks < b.ticks; });
  return events;
}

/// Writes one file whole under a name beside it, and gives it its own name when done. Any step that fails makes done()
/// answer false and leaves nothing; so does a name that a device or a folder has, which a rename would replace.
class FileWriter {
 public:
  FileWriter(std::string path, FileHeader header, const Names& names, const std::vector<std::uint64_t>& run_ns,
             const std::vector<TrackEntry>& tracks)
      : path_(std::move(path)),
        part_(path_ + ".part"),
        file_(may_replace(path_) ? std::fopen(part_.c_str(), "wb") : nullptr) {
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.version = kVersion;
    header.roles = static_cast<std::uint32_t>(names.roles.size());
    header.waits = static_cast<std::uint32_t>(names.waits.size());
    header.phases = static_cast<std::uint32_t>(names.phases.size());
    header.runs = static_cast<std::uint32_t>(run_ns.size());
    header.tracks = static_cast<std::uint32_t>(tracks.size());
    put(&header, sizeof header);
    for (const Role& role : names.roles) name(role.name, kNobody, role.matrix ? kMatrix : 0);
    for (const Wait& wait : names.waits) name(wait.name, wait.from, 0);
    for (const char* phase : names.phases) name(phase, kNobody, 0);
    put(run_ns.data(), run_ns.size() * sizeof(std::uint64_t));
    put(tracks.data(), tracks.size() * sizeof(TrackEntry));
  }
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter() { done(); }

  /// Events `first`, first + 1, ... of a track.
  void block(std::uint32_t track, std::uint64_t first, const Event* events, std::size_t count) {
    if (count == 0) return;
    const BlockHeader header{kBlockMagic, track, first, count};
    put(&header, sizeof header);
    put(events, count * sizeof(Event));
  }

  bool done() {
    if (file_ == nullptr) return finished_;
    good_ = std::fclose(file_) == 0 && good_;
    file_ = nullptr;
    finished_ = good_ && std::rename(part_.c_str(), path_.c_str()) == 0;
    if (!finished_) std::remove(part_.c_str());
    return finished_;
  }

 private:
  static bool may_replace(const std::string& path) {
    struct stat status = {};  // not <filesystem>, which is a tenth of what a small traced program takes to compile
    return ::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
  }
  void put(const void* bytes, std::size_t count) {
    if (count > 0) good_ = good_ && file_ != nullptr && std::fwrite(bytes, 1, count, file_) == count;
  }
  void name(const char* text, std::int32_t from, std::uint32_t flags) {
    NameEntry entry;
    std::strncpy(entry.text, text, sizeof entry.text - 1);
    entry.from = from;
    entry.flags = flags;
    put(&entry, sizeof entry);
  }

  std::string path_, part_;
  std::FILE* file_ = nullptr;
  bool good_ = true, finished_ = false;
};

/// Where `pinch trace` wants the file of this run: $PINCH_TRACE_FILE, else nothing.
inline std::string wanted_path() {
  const char* path = std::getenv("PINCH_TRACE_FILE");
  return path == nullptr ? "" : path;
}

/// Leaves word for `pinch sweep`, which ranks no instrumented run.
inline void tell_sweep(Level level) {
  const char* outputs = std::getenv("PINCH_OUTPUTS");
  if (level == Level::kOff || std::getenv("PINCH_SWEEP") == nullptr || outputs == nullptr) return;
  if (std::FILE* file = std::fopen((std::string(outputs) + "/pinch_instrumented").c_str(), "wb")) std::fclose(file);
}

}  // namespace pinch::trace
