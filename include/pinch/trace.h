// Marks in C++ code that say which step a thread is at and what it waits for. Standard library only.
//
//   PINCH_TRACE_SCOPE();            this thread takes part until the end of the block
//   PINCH_TRACE_STEP(role, step);   step number `step` of `role` begins, and the thread's earlier step ends
//   PINCH_TRACE_WAIT(what);         until the end of the block the thread waits for `what`
//   PINCH_TRACE_PHASE(name);        the next part of the step begins (detailed only)
//
// Roles, waits and phases are indices into the Names of the Session that the program opens. PINCH_TRACE_LEVEL chooses
// at compile time: 0 (off, the default) makes every mark nothing, 1 (coarse) keeps steps and waits, 2 (detailed) phases
// too. A mark costs one read of the clock and one store of 16 bytes into a ring of the thread's own, two reads for a
// wait; the oldest events are overwritten when a ring is full, and counted.
//
//   int main() {
//     pinch::trace::Session session(pinch::trace::kLevel, "pipeline", {{{"load"}, {"compute"}}, {{"slot", 1}, {"full",
//     0}}, {}}); const auto timed = session.run();
//     ...
//   }
//
// The session writes the file that $PINCH_TRACE_FILE names (pinch/trace_file.h); without that it records nothing. At
// level 0 the file holds the times of the runs alone, which is how `pinch trace` knows what tracing cost. The clock is
// the time stamp counter on x86-64, elsewhere and with -DPINCH_TRACE_STEADY_CLOCK std::chrono::steady_clock;
// PINCH_TRACE_CLOCK names another function.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "pinch/trace_file.h"

#if defined(__x86_64__) && !defined(PINCH_TRACE_STEADY_CLOCK)
#include <cpuid.h>
#endif

namespace pinch::trace {

using ClockFunction = std::uint64_t (*)();

inline std::uint64_t wall_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

#if defined(__x86_64__) && !defined(PINCH_TRACE_STEADY_CLOCK)
inline std::uint64_t time_stamp() {
  return __builtin_ia32_rdtsc();
}
inline bool time_stamp_is_steady() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d >> 8 & 1) != 0;  // invariant TSC
}
inline constexpr ClockFunction kClock = time_stamp;
#else
inline constexpr ClockFunction kClock = wall_ns;
#endif
#ifndef PINCH_TRACE_CLOCK
#define PINCH_TRACE_CLOCK ::pinch::trace::kClock
#endif

/// What the marks of one thread write to.
class Ring {
 public:
  explicit Ring(std::size_t events) : events_(events), mask_(events - 1) {}

  void put(std::uint64_t ticks, EventKind kind, unsigned name, std::uint32_t value) {
    events_[next_ & mask_] = {ticks, value, static_cast<std::uint16_t>(name), static_cast<std::uint8_t>(kind), 0};
    ++next_;
  }

  /// A wait that is too long for one event is several.
  void put_wait(std::uint64_t begin, std::uint64_t end, unsigned name) {
    constexpr std::uint64_t kMost = kAtLeast - 1;
    for (; end - begin > kMost; begin += kMost)
      put(begin + kMost, EventKind::kWait, name, static_cast<std::uint32_t>(kMost));
    put(end, EventKind::kWait, name, static_cast<std::uint32_t>(end - begin));
  }

 private:
  friend class Session;
  std::vector<Event> events_;
  std::uint64_t mask_, next_ = 0;
  TrackEntry entry_;
};

class Session;

namespace detail {
inline std::atomic<std::uint64_t> recording{0};  // number of the session that records; 0: none
inline std::mutex attaching;
inline std::atomic<Session*> session{nullptr};
struct Attached {
  std::uint64_t session = 0;
  Ring* ring = nullptr;
};
inline constinit thread_local Attached attached;
Ring* attach(std::uint64_t wanted);
}  // namespace detail

/// The calling thread's ring; null while nothing records.
inline Ring* ring() {
  const std::uint64_t wanted = detail::recording.load(std::memory_order_relaxed);
  if (detail::attached.session != wanted) detail::attached = {wanted, detail::attach(wanted)};
  return detail::attached.ring;
}

/// Records from its construction to its end; one at a time. Threads that made marks must have ended, or be where they
/// make none, when it ends.
class Session {
 public:
  /// `level`: kLevel, which is what this source file was compiled with. `path` empty: nothing is written.
  /// `events_per_thread`: kept of each thread, rounded up to a power of two; 16 bytes each. `clock` is what the marks
  /// read.
  explicit Session(Level level, std::string program, Names names, std::string path = wanted_path(),
                   std::size_t events_per_thread = std::size_t{1} << 18, ClockFunction clock = kClock)
      : program_(std::move(program)), names_(std::move(names)), level_(level), path_(std::move(path)), clock_(clock) {
    while (ring_events_ < events_per_thread) ring_events_ *= 2;
    tell_sweep(level_);
    if (path_.empty() || level_ == Level::kOff) return;
    static std::atomic<std::uint64_t> last{0};
    begin_ = anchor();
    detail::session = this;
    detail::recording = ++last;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { finish(); }

  /// A timed part of the program, until the returned object ends. `pinch trace` compares the median of these between
  /// levels; where there are none, the time of the whole process.
  class Run {
   public:
    explicit Run(Session& session) : session_(session), begin_(wall_ns()) {}
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    ~Run() { session_.run_ns_.push_back(wall_ns() - begin_); }

   private:
    Session& session_;
    std::uint64_t begin_;
  };
  [[nodiscard]] Run run() { return Run(*this); }

  /// Stops recording and writes the file. False where it cannot be written.
  bool finish() {
    if (finished_) return written_;
    finished_ = true;
    if (path_.empty()) return written_ = true;
    const bool recorded = level_ != Level::kOff;
    if (recorded) {
      const std::lock_guard lock(detail::attaching);
      detail::recording = 0;
      detail::session = nullptr;
    }
    FileHeader header;
    header.level = static_cast<std::uint32_t>(level_);
    header.clock_bits = 64;
    std::memcpy(header.program, program_.data(), std::min(program_.size(), sizeof header.program - 1));
    if (recorded) describe_clock(header);
    std::vector<TrackEntry> tracks;
    for (const auto& ring : rings_) {
      ring->entry_.emitted = ring->next_;
      tracks.push_back(ring->entry_);
    }
    FileWriter writer(path_, header, names_, run_ns_, tracks);
    for (std::size_t t = 0; t < rings_.size(); ++t) write(writer, static_cast<std::uint32_t>(t), *rings_[t]);
    return written_ = writer.done();
  }

  /// For PINCH_TRACE_SCOPE.
  void end_thread(Ring& ring) const {
    const Anchor end = anchor();
    ring.put(end.ticks, EventKind::kEnd, 0, 0);
    ring.entry_.end_ticks = end.ticks;
    ring.entry_.end_ns = end.ns;
  }

 private:
  friend Ring* detail::attach(std::uint64_t);
  struct Anchor {
    std::uint64_t ticks = 0, ns = 0;
  };

  // Both clocks at one moment: of a few tries the one that took least, since the thread may lose its core between.
  [[nodiscard]] Anchor anchor() const {
    if (clock_ != kClock) return {clock_(), clock_()};
    Anchor best;
    std::uint64_t least = ~std::uint64_t{0};
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t before = wall_ns(), ticks = clock_(), after = wall_ns();
      if (after - before < least) {
        least = after - before;
        best = {ticks, before + (after - before) / 2};
      }
    }
    return best;
  }

  Ring* add_ring() {
    auto ring = std::make_unique<Ring>(ring_events_);
    const Anchor begin = anchor();
    ring->entry_.index = static_cast<std::uint32_t>(rings_.size());
    ring->entry_.begin_ticks = begin.ticks;
    ring->entry_.begin_ns = begin.ns;
    rings_.push_back(std::move(ring));
    return rings_.back().get();
  }

  void describe_clock(FileHeader& header) const {
    const Anchor end = anchor();
    header.clock_hz = 1000000000;
    if (clock_ == kClock && end.ns > begin_.ns) {
      header.clock_hz = static_cast<std::uint64_t>(static_cast<double>(end.ticks - begin_.ticks) * 1e9 /
                                                   static_cast<double>(end.ns - begin_.ns));
    }
#if defined(__x86_64__) && !defined(PINCH_TRACE_STEADY_CLOCK)
    if (clock_ == kClock && !time_stamp_is_steady()) header.flags |= kClockVaries;
#endif
  }

  static void write(FileWriter& writer, std::uint32_t track, const Ring& ring) {
    const std::uint64_t size = ring.events_.size(), next = ring.next_;
    if (next <= size) return writer.block(track, 0, ring.events_.data(), next);
    const std::uint64_t oldest = next & ring.mask_;
    writer.block(track, next - size, ring.events_.data() + oldest, size - oldest);
    writer.block(track, next - oldest, ring.events_.data(), oldest);
  }

  std::string program_;
  Names names_;
  Level level_;
  std::string path_;
  ClockFunction clock_;
  std::size_t ring_events_ = 16;
  Anchor begin_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<std::uint64_t> run_ns_;
  bool finished_ = false, written_ = false;
};

inline Ring* detail::attach(std::uint64_t wanted) {
  const std::lock_guard lock(attaching);
  Session* open = session.load();
  return wanted == 0 || open == nullptr || recording.load() != wanted ? nullptr : open->add_ring();
}

/// PINCH_TRACE_SCOPE: the thread's last step ends with it.
class ThreadScope {
 public:
  ThreadScope() : ring_(ring()) {}
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;
  ~ThreadScope() {
    Session* open = detail::session.load();
    if (ring_ != nullptr && open != nullptr && ring() == ring_) open->end_thread(*ring_);
  }

 private:
  Ring* ring_;
};

/// PINCH_TRACE_WAIT.
template <ClockFunction kRead>
class WaitScope {
 public:
  explicit WaitScope(unsigned name) : ring_(ring()), name_(name), begin_(ring_ == nullptr ? 0 : kRead()) {}
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;
  ~WaitScope() {
    if (ring_ != nullptr) ring_->put_wait(begin_, kRead(), name_);
  }

 private:
  Ring* ring_;
  unsigned name_;
  std::uint64_t begin_;
};

}  // namespace pinch::trace

#ifdef PINCH_TRACE_STEP
#error "pinch/trace.cuh is included too: a file marks CPU threads or CUDA warps"
#endif

#define PINCH_TRACE_JOIN2(a, b) a##b
#define PINCH_TRACE_JOIN(a, b) PINCH_TRACE_JOIN2(a, b)

#if PINCH_TRACE_LEVEL >= 1
#define PINCH_TRACE_MARK(kind, name, value)                                                                    \
  do {                                                                                                         \
    if (::pinch::trace::Ring* pinch_trace_ring = ::pinch::trace::ring(); pinch_trace_ring != nullptr) {        \
      pinch_trace_ring->put(PINCH_TRACE_CLOCK(), ::pinch::trace::EventKind::kind, static_cast<unsigned>(name), \
                            static_cast<std::uint32_t>(value));                                                \
    }                                                                                                          \
  } while (false)
#define PINCH_TRACE_SCOPE() const ::pinch::trace::ThreadScope PINCH_TRACE_JOIN(pinch_trace_scope_, __LINE__)
#define PINCH_TRACE_STEP(role, step) PINCH_TRACE_MARK(kStep, role, step)
#define PINCH_TRACE_WAIT(what)                                                           \
  const ::pinch::trace::WaitScope<PINCH_TRACE_CLOCK> PINCH_TRACE_JOIN(pinch_trace_wait_, \
                                                                      __LINE__)(static_cast<unsigned>(what))
#else
#define PINCH_TRACE_SCOPE() static_cast<void>(0)
#define PINCH_TRACE_STEP(role, step) static_cast<void>(0)
#define PINCH_TRACE_WAIT(what) static_cast<void>(0)
#endif

#if PINCH_TRACE_LEVEL >= 2
#define PINCH_TRACE_PHASE(name) PINCH_TRACE_MARK(kPhase, name, 0)
#else
#define PINCH_TRACE_PHASE(name) static_cast<void>(0)
#endif
