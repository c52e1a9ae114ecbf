#include "workbench/trace/reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "src/core/file_error.h"

namespace pinch::trace {
namespace {

constexpr std::uint64_t kPieceEvents = std::uint64_t{1} << 16;  // after which pages are given back
constexpr std::uint64_t kLastTick = std::uint64_t{1} << 62;

// Names reach JSON and HTML, so they must be text.
bool is_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int more = lead < 0x80                   ? 0
                     : lead >= 0xc2 && lead < 0xe0 ? 1
                     : lead >= 0xe0 && lead < 0xf0 ? 2
                     : lead >= 0xf0 && lead < 0xf5 ? 3
                                                   : -1;
    if (more < 0 || lead < 0x20 || lead == 0x7f || i + static_cast<std::size_t>(more) >= text.size()) return false;
    for (int k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]);
      const int least = k > 1 ? 0x80 : lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
      const int most = k > 1 ? 0xbf : lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
      if (next < least || next > most) return false;
    }
    i += static_cast<std::size_t>(more) + 1;
  }
  return true;
}

// Walks the bytes of a file and words its refusals.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  [[nodiscard]] std::uint64_t at() const { return at_; }
  [[nodiscard]] std::uint64_t left() const { return bytes_.size() - at_; }
  [[nodiscard]] Error error(std::uint64_t offset, std::string_view rule, std::string_view text) const {
    return corrupt(name_, offset, rule, text);
  }

  template <class T>
  Result<T> take(std::string_view what) {
    if (left() < sizeof(T)) {
      return error(at_, "truncated", fmt::format("{} bytes are left and {} needs {}", left(), what, sizeof(T)));
    }
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  /// Refuses a count before anything is allocated for it.
  Result<void> expect(std::uint64_t count, std::uint64_t size, std::uint64_t said_at, std::string_view what) const {
    if (count <= left() / size) return {};
    return error(said_at, "count", fmt::format("{} {} need {} bytes each and {} are left", count, what, size, left()));
  }

  void skip(std::uint64_t bytes) { at_ += bytes; }

 private:
  std::span<const std::byte> bytes_;
  std::string_view name_;
  std::uint64_t at_ = 0;
};

template <std::size_t kSize>
Result<std::string> text_of(const char (&field)[kSize], const Cursor& cursor, std::uint64_t offset) {
  const std::string_view all(field, kSize);
  const auto end = all.find('\0');
  if (end == std::string_view::npos) return cursor.error(offset, "name", "no zero ends this name");
  std::string text(all.substr(0, end));
  if (!is_text(text)) return cursor.error(offset, "name", fmt::format("{} is no UTF-8 text", quote_name(text)));
  return text;
}

Result<FileHeader> read_header(Cursor& cursor) {
  if (cursor.left() < sizeof kMagic) return cursor.error(0, "truncated", "a trace begins with PINCHTRC");
  PINCH_ASSIGN(header, cursor.take<FileHeader>("a header"));
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return cursor.error(0, "magic", "a trace begins with PINCHTRC");
  const auto refuse = [&](std::size_t offset, std::string_view rule, const std::string& text) {
    return cursor.error(offset, rule, text);
  };
  if (header.version != kVersion)
    return refuse(offsetof(FileHeader, version), "version",
                  fmt::format("{}; this program reads {}", header.version, kVersion));
  if (header.level > static_cast<std::uint32_t>(Level::kDetailed))
    return refuse(offsetof(FileHeader, level), "level", fmt::format("{}; 0 to 2 are levels", header.level));
  if (header.clock_bits < 32 || header.clock_bits > 64)
    return refuse(offsetof(FileHeader, clock_bits), "clock_bits",
                  fmt::format("{}; 32 to 64 are allowed", header.clock_bits));
  const std::pair<std::size_t, std::uint32_t> counts[] = {{offsetof(FileHeader, roles), header.roles},
                                                          {offsetof(FileHeader, waits), header.waits},
                                                          {offsetof(FileHeader, phases), header.phases}};
  for (const auto& [offset, count] : counts) {
    if (count > kMaxNames)
      return refuse(offset, "count", fmt::format("{} names; {} of a kind are allowed", count, kMaxNames));
  }
  return header;
}

// What an event may be, by its kind; checked once for the whole file.
Result<void> check_event(const Event& event, const FileHeader& header, const Cursor& cursor, std::uint64_t offset) {
  std::uint32_t names = 0;
  switch (static_cast<EventKind>(event.kind)) {
    case EventKind::kStep:
      names = header.roles;
      break;
    case EventKind::kWait:
      names = header.waits;
      break;
    case EventKind::kPhase:
      names = header.phases;
      break;
    case EventKind::kEnd:
      return {};
    default:
      return cursor.error(offset + offsetof(Event, kind), "event",
                          fmt::format("kind {}; 1 to 4 are kinds", event.kind));
  }
  if (event.name < names) return {};
  return cursor.error(offset + offsetof(Event, name), "event",
                      fmt::format("name {} of {} of its kind", event.name, names));
}

}  // namespace

bool is_trace(std::istream& stream) {
  char magic[sizeof kMagic] = {};
  stream.read(magic, sizeof magic);
  stream.clear();
  stream.seekg(0);
  return std::equal(std::begin(magic), std::end(magic), std::begin(kMagic));
}

std::string_view to_string(Level level) {
  return level == Level::kOff ? "off" : level == Level::kCoarse ? "coarse" : "detailed";
}

Result<TraceFile> TraceFile::open(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) {
    return with_advice(mapped.error(),
                       "give a trace: what `pinch trace --keep FILE -- COMMAND` keeps, or what a program with marks "
                       "wrote to $PINCH_TRACE_FILE (docs/trace.md)");
  }
  std::shared_ptr<const MappedFile> mapping = std::move(*mapped);
  const std::span<const std::byte> bytes = mapping->bytes();
  return parse(bytes, path, std::move(mapping));
}

Result<TraceFile> TraceFile::parse(std::span<const std::byte> bytes, std::string_view name) {
  return parse(bytes, name, nullptr);
}

Result<TraceFile> TraceFile::parse(std::span<const std::byte> bytes, std::string_view name,
                                   std::shared_ptr<const MappedFile> mapping) {
  Cursor cursor(bytes, name);
  TraceFile file;
  file.mapping_ = std::move(mapping);
  file.bytes_ = bytes;
  PINCH_ASSIGN(header, read_header(cursor));
  file.header_ = header;
  PINCH_ASSIGN(program, text_of(header.program, cursor, offsetof(FileHeader, program)));
  file.program_ = std::move(program);

  const std::uint32_t names = header.roles + header.waits + header.phases;
  PINCH_TRY(cursor.expect(names, sizeof(NameEntry), offsetof(FileHeader, roles), "names"));
  for (std::uint32_t i = 0; i < names; ++i) {
    const std::uint64_t at = cursor.at();
    PINCH_ASSIGN(entry, cursor.take<NameEntry>("a name"));
    PINCH_ASSIGN(text, text_of(entry.text, cursor, at));
    const bool is_wait = i >= header.roles && i < header.roles + header.waits;
    if (entry.from != kNobody &&
        (!is_wait || entry.from < 0 || entry.from >= static_cast<std::int64_t>(header.roles))) {
      return cursor.error(at + offsetof(NameEntry, from), "from",
                          fmt::format("{} is no role that ends a wait", entry.from));
    }
    if (i < header.roles) {
      file.roles_.push_back({text, (entry.flags & kMatrix) != 0});
    } else if (is_wait) {
      file.waits_.push_back({text, entry.from});
    } else {
      file.phases_.push_back(text);
    }
  }
  PINCH_TRY(cursor.expect(header.runs, sizeof(std::uint64_t), offsetof(FileHeader, runs), "run times"));
  for (std::uint32_t i = 0; i < header.runs; ++i) {
    PINCH_ASSIGN(ns, cursor.take<std::uint64_t>("a run time"));
    file.run_ns_.push_back(ns);
  }
  PINCH_TRY(cursor.expect(header.tracks, sizeof(TrackEntry), offsetof(FileHeader, tracks), "tracks"));
  const std::uint64_t tracks_at = cursor.at();
  for (std::uint32_t i = 0; i < header.tracks; ++i) {
    PINCH_ASSIGN(track, cursor.take<TrackEntry>("a track"));
    file.tracks_.push_back(track);
  }
  file.blocks_.resize(header.tracks);

  while (cursor.left() > 0) {
    const std::uint64_t at = cursor.at();
    PINCH_ASSIGN(block, cursor.take<BlockHeader>("a block"));
    if (block.magic != kBlockMagic) return cursor.error(at, "block", "a block begins with BLCK");
    if (block.track >= header.tracks) {
      return cursor.error(at + offsetof(BlockHeader, track), "block",
                          fmt::format("track {} of {}", block.track, header.tracks));
    }
    PINCH_TRY(cursor.expect(block.count, sizeof(Event), at + offsetof(BlockHeader, count), "events"));
    const std::uint64_t emitted = file.tracks_[block.track].emitted;
    if (block.count > emitted || block.first > emitted - block.count) {
      return cursor.error(at + offsetof(BlockHeader, first), "block",
                          fmt::format("events {} to {} of a track that had {}", block.first,
                                      static_cast<double>(block.first) + static_cast<double>(block.count), emitted));
    }
    if (block.count > 0) file.blocks_[block.track].push_back({block.first, block.count, cursor.at()});
    for (std::uint64_t i = 0; i < block.count; ++i) {
      const std::uint64_t offset = cursor.at();
      PINCH_ASSIGN(event, cursor.take<Event>("an event"));
      PINCH_TRY(check_event(event, header, cursor, offset));
      if ((i + 1) % kPieceEvents == 0) file.release(cursor.at() - kPieceEvents * sizeof(Event), cursor.at());
    }
    file.events_ += block.count;
  }
  for (std::size_t t = 0; t < file.blocks_.size(); ++t) {
    auto& blocks = file.blocks_[t];
    std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.first < b.first; });
    for (std::size_t i = 1; i < blocks.size(); ++i) {
      if (blocks[i].first < blocks[i - 1].first + blocks[i - 1].count) {
        return cursor.error(blocks[i].offset - sizeof(BlockHeader) + offsetof(BlockHeader, first), "block",
                            fmt::format("event {} of track {} is in two blocks (tracks begin at byte {})",
                                        blocks[i].first, t, tracks_at));
      }
    }
  }
  return file;
}

void TraceFile::release(std::uint64_t begin, std::uint64_t end) const {
  if (mapping_) mapping_->release(bytes_.subspan(begin, end - begin));
}

EventReader::EventReader(const TraceFile& file, std::size_t track)
    : file_(&file), track_(track), mask_(~std::uint64_t{0} >> (64 - file.header().clock_bits)) {
  const TrackEntry& entry = file.tracks()[track];
  if (entry.begin_ns != 0) {
    last_raw_ = entry.begin_ticks & mask_;
    started_ = true;
  }
}

std::uint64_t EventReader::span_ticks() const {
  const TrackEntry& entry = file_->tracks()[track_];
  return entry.end_ns == 0 ? 0 : (entry.end_ticks - entry.begin_ticks) & mask_;
}

void EventReader::lose_up_to(std::uint64_t number) {
  gap_ = gap_ || number > number_;
  lost_ += number - number_;
  number_ = number;
}

std::optional<EventReader::Item> EventReader::next() {
  const auto& blocks = file_->blocks_[track_];
  if (block_ == blocks.size()) {
    lose_up_to(file_->tracks()[track_].emitted);
    return std::nullopt;
  }
  const TraceFile::Block& block = blocks[block_];
  if (within_ == 0) lose_up_to(block.first);
  Item item;
  std::memcpy(&item.event, file_->bytes_.data() + block.offset + within_ * sizeof(Event), sizeof(Event));
  item.after_gap = gap_;
  gap_ = false;
  ++number_;

  const std::uint64_t raw = item.event.ticks & mask_;
  if (!started_) last_raw_ = raw;
  started_ = true;
  const std::uint64_t ahead = (raw - last_raw_) & mask_;
  // A clock that ran back, or past the end of time: time stands still until it has caught up.
  if (ahead > mask_ - mask_ / 16 || ahead > kLastTick - ticks_) {
    ++backwards_;
  } else {
    ticks_ += ahead;
    last_raw_ = raw;
  }
  item.ticks = ticks_;

  if (++within_ == block.count || within_ % kPieceEvents == 0) {
    const std::uint64_t from = (within_ - 1) / kPieceEvents * kPieceEvents;
    file_->release(block.offset + from * sizeof(Event), block.offset + within_ * sizeof(Event));
  }
  if (within_ == block.count) {
    within_ = 0;
    ++block_;
  }
  return item;
}

}  // namespace pinch::trace
