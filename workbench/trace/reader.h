// Reads trace files (pinch/trace_file.h): what lies where, every reference checked, events left in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/result.h"
#include "pinch/trace_file.h"
#include "src/core/mapped_file.h"

namespace pinch::trace {

std::string_view to_string(Level level);

/// Whether a stream begins as a trace file does. It stands at its beginning afterwards.
bool is_trace(std::istream& stream);

struct RoleEntry {
  std::string name;
  bool matrix = false;
};
struct WaitEntry {
  std::string name;
  int from = kNobody;  ///< index of the role that ends it
};

class TraceFile {
 public:
  /// Maps the file. Errors: those of MappedFile::open and parse.
  static Result<TraceFile> open(const std::string& path);

  /// Reads bytes that must outlive the result; `name` stands in messages. Errors: kCorrupt with the byte at which the
  /// format is broken: too short, not a trace, another version, a name that is no UTF-8 text, more entries than the
  /// file has bytes, a reference to a role, wait, phase, track or block that is none, an event of no kind, blocks of a
  /// track that overlap, or more events than the track is said to have had.
  static Result<TraceFile> parse(std::span<const std::byte> bytes, std::string_view name);

  [[nodiscard]] const FileHeader& header() const { return header_; }
  [[nodiscard]] Level level() const { return static_cast<Level>(header_.level); }
  [[nodiscard]] const std::string& program() const { return program_; }
  [[nodiscard]] const std::vector<RoleEntry>& roles() const { return roles_; }
  [[nodiscard]] const std::vector<WaitEntry>& waits() const { return waits_; }
  [[nodiscard]] const std::vector<std::string>& phases() const { return phases_; }
  [[nodiscard]] const std::vector<std::uint64_t>& run_ns() const { return run_ns_; }
  [[nodiscard]] const std::vector<TrackEntry>& tracks() const { return tracks_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }  ///< in the file

 private:
  friend class EventReader;
  struct Block {
    std::uint64_t first = 0, count = 0, offset = 0;
  };

  static Result<TraceFile> parse(std::span<const std::byte> bytes, std::string_view name,
                                 std::shared_ptr<const MappedFile> mapping);
  /// Gives a range of the file's pages back to the system.
  void release(std::uint64_t begin, std::uint64_t end) const;

  std::shared_ptr<const MappedFile> mapping_;  // null where the bytes are the caller's
  std::span<const std::byte> bytes_;
  FileHeader header_;
  std::string program_;
  std::vector<RoleEntry> roles_;
  std::vector<WaitEntry> waits_;
  std::vector<std::string> phases_;
  std::vector<std::uint64_t> run_ns_;
  std::vector<TrackEntry> tracks_;
  std::vector<std::vector<Block>> blocks_;  // of each track, by first
  std::uint64_t events_ = 0;
};

/// The events of one track in their order, on one clock that neither wraps nor runs backwards.
class EventReader {
 public:
  struct Item {
    Event event;              ///< `event.ticks` as the file has it
    std::uint64_t ticks = 0;  ///< since the track's begin anchor (since its first event where it has none)
    bool after_gap = false;   ///< events before this one were lost
  };

  EventReader(const TraceFile& file, std::size_t track);

  /// Nothing when the track ends. Gives pages that were read back to the system.
  std::optional<Item> next();

  [[nodiscard]] std::uint64_t lost() const { return lost_; }            ///< so far; all of it after the end
  [[nodiscard]] std::uint64_t backwards() const { return backwards_; }  ///< stamps before their predecessor

  /// Ticks from the begin anchor to the end anchor; 0 where the track did not end.
  [[nodiscard]] std::uint64_t span_ticks() const;

 private:
  void lose_up_to(std::uint64_t number);

  const TraceFile* file_;
  std::size_t track_;
  std::uint64_t mask_;
  std::size_t block_ = 0;
  std::uint64_t within_ = 0, number_ = 0, lost_ = 0, backwards_ = 0, ticks_ = 0, last_raw_ = 0;
  bool started_ = false, gap_ = false;
};

}  // namespace pinch::trace
