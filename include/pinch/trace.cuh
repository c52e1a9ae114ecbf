// Marks in a CUDA C++ kernel that say which step a warp is at and what it waits for. No dependency but
// pinch/trace_file.h.
//
//   PINCH_TRACE_SCOPE();            the warp's lanes that are here take part until the end of the block
//   PINCH_TRACE_STEP(role, step);   step number `step` of `role` begins, and the warp's earlier step ends
//   PINCH_TRACE_WAIT(what);         until the end of the block the warp waits for `what`
//   PINCH_TRACE_PHASE(name);        the next part of the step begins (detailed only)
//
// A stamp takes 2 cycles to read and 20 until it can be stored, for which the warp stands still where nothing else is
// to be done. Where that is too much, read it in one place and store it in a later one:
//
//   PINCH_TRACE_NOW(t);                     `t` is now; behind a bar.sync say __syncwarp() first, or it is before it
//   PINCH_TRACE_RENEW(t);                   the same `t` is now
//   PINCH_TRACE_STEP_AT(t, role, step);     a step began at `t`
//   PINCH_TRACE_WAIT_AT(t, u, what);        the warp waited from `t` to `u`
//
// Each store of a warp beside wgmma costs 10 cycles or so, wherever it stands. A warp all of whose lanes are in the
// scope can keep 32 moments in a register, a lane each, and store them together; what a warp that never ends had not
// stored by then is not seen.
//
//   PINCH_TRACE_ROW(row);                           no moments yet
//   PINCH_TRACE_KEEP(row, step, t);                 `t` is that of this step, from 0; it may be 31 further than another
//   PINCH_TRACE_STEPS_OF(row, role, low, high);     these steps, 32 at most, began when `row` says
//   PINCH_TRACE_WAITS_OF(t, u, what, low, high);    in each of them the warp waited from row `t` to row `u`
//
// Entering a scope takes a microsecond where the memory is cold. A role whose first steps are what others wait for may
// begin with PINCH_TRACE_SCOPE_LATER() and say PINCH_TRACE_ENTER() where it has time; earlier marks are not kept, and
// a second ENTER is nothing.
//
// Roles, waits and phases are indices, up to 31, into the Names of the CudaSession; a step's number is kept modulo
// 2^24. PINCH_TRACE_LEVEL chooses at compile time: 0 (off, the default) makes every mark nothing, so the SASS is that
// of the kernel without them; 1 (coarse) keeps steps and waits; 2 (detailed) phases too, which slows the steps, since
// each read of the clock stands in the way of the compiler's schedule.
//
// A warp writes to a buffer of its own: one lane (the lowest of those that enter the scope) stores 8 bytes a mark,
// with no branch, fence or atomic. A full buffer keeps its first events and counts the rest. STEP, WAIT and PHASE name
// the innermost scope of the function that they are in, so a role that is a function of its own begins with
// PINCH_TRACE_SCOPE(), and one that it calls takes the scope: `void multiply(float* sums PINCH_TRACE_PARAMETER)`,
// called as `multiply(sums PINCH_TRACE_PASSED)`. A struct whose functions have marks has it as a member: a line
// PINCH_TRACE_MEMBER with no semicolon, and PINCH_TRACE_PASSED in its place among the initialisers. A warp has one
// scope a launch: those of a warp that has several are left out and counted as lost tracks, and so is one of a CTA or
// warp beyond those that the session has room for.
//
//   pinch::trace::CudaSession session(pinch::trace::kLevel, "kernel", {{{"load"}, {"mma", true}}, {{"P", 0}}, {}},
//                                     {.ctas = grid, .warps_of_cta = 4});
//   PINCH_TRACE_ATTACH(session);    in the source file of the kernel
//   kernel<<<grid, 128>>>(...);
//   session.finish();               waits for the device and writes what $PINCH_TRACE_FILE names
//
// At level 0 the session writes the times given to add_run_ns() alone, which is how `pinch trace` knows what tracing
// cost.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pinch/trace_file.h"

namespace pinch::trace {

/// What one warp leaves behind its events.
struct WarpEntry {
  std::uint64_t begin_ticks, begin_ns;
  std::uint64_t end_ticks, end_ns;  // 0: still running
  std::int32_t past;                // events that were more than the room; below 0: that were fewer
  std::uint32_t scopes;             // that were entered; 0: nobody was here
  std::uint32_t sm;
  std::uint32_t zero;
};

/// What the device is told; in constant memory of each source file that has marks. A warp's room holds events_of_warp
/// events and then its entry, so that one address leads to both.
struct DeviceBuffers {
  unsigned char* rooms = nullptr;  // [ctas * warps_of_cta] of room_bytes()
  unsigned long long* lost_warps = nullptr;
  std::uint32_t ctas = 0, warps_of_cta = 0, events_of_warp = 0;

  // A multiple of 8: so many bytes as the two kinds of members need.
  __host__ __device__ constexpr std::uint32_t room_bytes() const {
    return events_of_warp * static_cast<std::uint32_t>(sizeof(WarpEvent)) +
           static_cast<std::uint32_t>(sizeof(WarpEntry));
  }
};

struct CudaRoom {
  std::uint32_t ctas = 0;          ///< of the grid
  std::uint32_t warps_of_cta = 0;  ///< of a CTA
  std::uint32_t events_of_warp = 4096;
};

class CudaSession {
 public:
  CudaSession(Level level, std::string program, Names names, CudaRoom room, std::string path = wanted_path())
      : level_(level), program_(std::move(program)), names_(std::move(names)), path_(std::move(path)) {
    tell_sweep(level_);
    if (path_.empty() || level_ == Level::kOff) return;
    buffers_.ctas = room.ctas;
    buffers_.warps_of_cta = room.warps_of_cta;
    buffers_.events_of_warp = room.events_of_warp;
    good_ = names_.roles.size() <= kWarpNames && names_.waits.size() <= kWarpNames &&
            names_.phases.size() <= kWarpNames && zeroed(buffers_.rooms, warps() * buffers_.room_bytes()) &&
            zeroed(buffers_.lost_warps, 1);
    if (!good_) buffers_.ctas = 0;
  }
  CudaSession(const CudaSession&) = delete;
  CudaSession& operator=(const CudaSession&) = delete;
  ~CudaSession() {
    finish();
    cudaFree(buffers_.rooms);
    cudaFree(buffers_.lost_warps);
  }

  /// For PINCH_TRACE_ATTACH.
  [[nodiscard]] const DeviceBuffers& buffers() const { return buffers_; }
  void attached(cudaError_t status) { good_ = good_ && status == cudaSuccess; }

  /// Forgets the launches so far, so that the next is traced: a program that times several with their marks on keeps
  /// the last.
  void again() {
    if (buffers_.ctas == 0) return;
    good_ = good_ && zero(buffers_.rooms, warps() * buffers_.room_bytes()) && zero(buffers_.lost_warps, 1);
  }

  /// The time of a launch, measured by the caller (events around it, or a graph's replay).
  void add_run_ns(double ns) { run_ns_.push_back(static_cast<std::uint64_t>(ns)); }

  /// Waits for the device, writes the file, stops recording. False where the device failed, had no memory for the
  /// buffers, or the file cannot be written.
  bool finish() {
    if (finished_) return good_;
    finished_ = true;
    if (path_.empty()) return good_;
    FileHeader header;
    header.level = static_cast<std::uint32_t>(level_);
    header.flags = kReportCycles | kClockVaries;
    header.clock_bits = 64;
    program_.copy(header.program, sizeof header.program - 1);
    std::vector<TrackEntry> tracks;
    std::vector<std::size_t> places;
    if (level_ != Level::kOff && good_) read_entries(header, tracks, places);
    FileWriter writer(path_, header, names_, run_ns_, tracks);
    for (std::size_t t = 0; t < tracks.size() && good_; ++t) {
      const std::vector<Event> events = events_of(places[t], tracks[t].begin_ticks);
      writer.block(static_cast<std::uint32_t>(t), 0, events.data(),
                   std::min<std::size_t>(tracks[t].emitted, events.size()));
    }
    return good_ = writer.done() && good_;
  }

 private:
  [[nodiscard]] std::size_t warps() const { return std::size_t{buffers_.ctas} * buffers_.warps_of_cta; }

  template <class T>
  static bool zeroed(T*& to, std::size_t count) {
    return cudaMalloc(reinterpret_cast<void**>(&to), count * sizeof(T)) == cudaSuccess && zero(to, count);
  }
  template <class T>
  static bool zero(T* to, std::size_t count) {
    return cudaMemset(to, 0, count * sizeof(T)) == cudaSuccess;
  }
  template <class T>
  static bool read(T* to, const T* from, std::size_t count) {
    return cudaMemcpy(to, from, count * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess;
  }

  std::vector<Event> events_of(std::size_t warp, std::uint64_t begin_ticks) {
    std::vector<WarpEvent> stored(buffers_.events_of_warp);
    good_ = good_ && read(reinterpret_cast<unsigned char*>(stored.data()),
                          buffers_.rooms + warp * buffers_.room_bytes(), stored.size() * sizeof(WarpEvent));
    return unpacked(stored, begin_ticks);
  }

  void read_entries(FileHeader& header, std::vector<TrackEntry>& tracks, std::vector<std::size_t>& places) {
    std::vector<WarpEntry> entries(warps());
    unsigned long long lost = 0;
    const std::size_t pitch = buffers_.room_bytes();
    good_ = cudaDeviceSynchronize() == cudaSuccess &&
            cudaMemcpy2D(entries.data(), sizeof(WarpEntry), buffers_.rooms + pitch - sizeof(WarpEntry), pitch,
                         sizeof(WarpEntry), entries.size(), cudaMemcpyDeviceToHost) == cudaSuccess &&
            read(&lost, buffers_.lost_warps, 1);
    if (!good_) return;
    header.lost_tracks = lost;
    int device = 0, khz = 0;
    if (cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device) == cudaSuccess)
      header.clock_hz = static_cast<std::uint64_t>(khz) * 1000;
    for (std::size_t w = 0; w < entries.size(); ++w) {
      const WarpEntry& entry = entries[w];
      if (entry.scopes != 1) {  // several wrote over one another
        header.lost_tracks += entry.scopes;
        continue;
      }
      TrackEntry track;
      track.group = static_cast<std::uint32_t>(w / buffers_.warps_of_cta);
      track.unit = entry.sm;
      track.index = static_cast<std::uint32_t>(w % buffers_.warps_of_cta);
      track.begin_ticks = entry.begin_ticks;
      track.begin_ns = entry.begin_ns;
      track.end_ticks = entry.end_ticks;
      track.end_ns = entry.end_ns;
      track.emitted = static_cast<std::uint64_t>(std::int64_t{buffers_.events_of_warp} + entry.past);
      if (entry.end_ns == 0) {  // it never ended and left no count: what it wrote is what is not zero
        track.emitted = events_of(w, track.begin_ticks).size();
      } else if (entry.end_ns - entry.begin_ns > 500000000) {  // 2^31 ticks may lie between two of its events
        const std::vector<Event> events = events_of(w, track.begin_ticks);
        if (!events.empty() && events.back().kind == static_cast<std::uint8_t>(EventKind::kEnd) &&
            events.back().ticks != entry.end_ticks) {
          ++header.lost_tracks;
          continue;
        }
      }
      tracks.push_back(track);
      places.push_back(w);
    }
  }

  Level level_;
  std::string program_;
  Names names_;
  std::string path_;
  DeviceBuffers buffers_;
  std::vector<std::uint64_t> run_ns_;
  bool finished_ = false, good_ = true;
};

}  // namespace pinch::trace

#ifdef PINCH_TRACE_STEP
#error "pinch/trace.h is included too: a file marks CPU threads or CUDA warps"
#endif

#if PINCH_TRACE_LEVEL >= 1

namespace pinch::trace {

// Internal to each source file, as its marks are.
static __constant__ DeviceBuffers device_buffers;

/// Where a warp's next event goes, in registers. What the lanes do is the same for all but the store, which is
/// predicated: a branch for the one that writes would cost more than the rest of a mark.
class WarpScope {
 public:
  /// From now on the warp writes.
  __device__ __forceinline__ void enter() {
    const unsigned active = __activemask();
    if (past_ < kNoWriter || lane() + 1 != static_cast<unsigned>(__ffs(static_cast<int>(active)))) return;
    const unsigned cta = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned warp = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;
    if (cta >= device_buffers.ctas || warp >= device_buffers.warps_of_cta) {
      if (device_buffers.ctas > 0) atomicAdd(device_buffers.lost_warps, 1ULL);  // else nobody attached a session
      return;
    }
    const std::size_t bytes = device_buffers.room_bytes();
    entry_ = reinterpret_cast<WarpEntry*>(device_buffers.rooms +
                                          (std::size_t{cta} * device_buffers.warps_of_cta + warp + 1) * bytes) -
             1;
    past_ = -static_cast<int>(device_buffers.events_of_warp);
    atomicAdd(&entry_->scopes, 1U);  // nobody waits for its answer, as one would for a load's
    unsigned sm;
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    entry_->sm = sm;
    entry_->begin_ticks = static_cast<std::uint64_t>(clock64());
    entry_->begin_ns = wall();
  }

  __device__ __forceinline__ ~WarpScope() {
    const auto ticks = static_cast<std::uint64_t>(clock64());
    put(static_cast<unsigned>(ticks), EventKind::kEnd, 0, 0);
    if (past_ >= kNoWriter) return;
    entry_->past = past_;
    entry_->end_ticks = ticks;
    entry_->end_ns = wall();
  }

  // Not clock(): its 32 bits are read in 8 cycles, these in 2.
  __device__ __forceinline__ static unsigned now() { return static_cast<unsigned>(clock64()); }

  // .cs: read by nobody here, so evicted first.
  __device__ __forceinline__ void put(unsigned ticks, EventKind kind, unsigned name, unsigned value) {
    asm volatile("{\n .reg .pred fits;\n setp.lt.s32 fits, %0, 0;\n @fits st.global.cs.v2.u32 [%1], {%2, %3};\n}"
                 :
                 : "r"(past_), "l"(reinterpret_cast<WarpEvent*>(entry_) + past_), "r"(ticks),
                   "r"((static_cast<unsigned>(kind) * kWarpNames + name) * kWarpValues | value % kWarpValues));
    ++past_;
  }

  __device__ __forceinline__ void put_wait(unsigned begin, unsigned end, unsigned name) {
    put(end, EventKind::kWait, name, min(end - begin, kWarpValues - 1));
  }

  /// Of the steps low to high, `kept` by the lane that has the step's number modulo 32.
  __device__ __forceinline__ void put_steps(unsigned kept, unsigned role, int low, int high) {
    put_row(kept, EventKind::kStep, role, kStepsValue, low, high);
  }
  __device__ __forceinline__ void put_waits(unsigned begin, unsigned end, unsigned name, int low, int high) {
    put_row(end, EventKind::kWait, name, min(end - begin, kWarpValues - 1), low, high);
  }
  __device__ __forceinline__ static bool keeps(int step) { return lane() == (static_cast<unsigned>(step) & 31); }

 private:
  __device__ __forceinline__ static unsigned lane() {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
  }

  // All lanes of the warp; the lowest is the writer. `value`: kStepsValue for the number of the step.
  __device__ __forceinline__ void put_row(unsigned ticks, EventKind kind, unsigned name, unsigned value, int low,
                                          int high) {
    const int past = __shfl_sync(0xFFFFFFFF, past_, 0);
    const auto entry = __shfl_sync(0xFFFFFFFF, reinterpret_cast<unsigned long long>(entry_), 0);
    if (past >= kNoWriter || low > high) return;
    int step = (high & ~31) + static_cast<int>(lane());
    if (step > high) step -= 32;
    const int to = past + step - low;
    if (step >= low && to < 0)
      reinterpret_cast<WarpEvent*>(entry)[to] = {
          ticks, (static_cast<unsigned>(kind) * kWarpNames + name) * kWarpValues |
                     (value == kStepsValue ? static_cast<unsigned>(step) : value) % kWarpValues};
    if (past_ < kNoWriter) past_ += high - low + 1;
  }

  static constexpr unsigned kStepsValue = ~0U;

  __device__ __forceinline__ static std::uint64_t wall() {
    std::uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  }

  static constexpr int kNoWriter = 1 << 30;

  WarpEntry* entry_ = nullptr;  // the warp's events end here
  int past_ = kNoWriter;  // where the next one goes: below 0 while it fits; from kNoWriter on the lane does not write
};

class WarpWait {
 public:
  __device__ __forceinline__ WarpWait(WarpScope& scope, unsigned name) : scope_(scope), name_(name) {
    begin_ = WarpScope::now();  // not above: host compilers read initialisers and know no clock64
  }
  // Behind a BAR the clock alone would be read before the warp stands still; a __syncwarp is 0 or 1 instruction.
  __device__ __forceinline__ ~WarpWait() {
    __syncwarp(__activemask());
    scope_.put_wait(begin_, WarpScope::now(), name_);
  }

 private:
  WarpScope& scope_;
  unsigned name_;
  unsigned begin_;
};

}  // namespace pinch::trace

#define PINCH_TRACE_JOIN2(a, b) a##b
#define PINCH_TRACE_JOIN(a, b) PINCH_TRACE_JOIN2(a, b)
#define PINCH_TRACE_ATTACH(session) \
  (session).attached(               \
      cudaMemcpyToSymbol(::pinch::trace::device_buffers, &(session).buffers(), sizeof(::pinch::trace::DeviceBuffers)))
#define PINCH_TRACE_SCOPE()  \
  PINCH_TRACE_SCOPE_LATER(); \
  PINCH_TRACE_ENTER()
#define PINCH_TRACE_SCOPE_LATER() ::pinch::trace::WarpScope pinch_trace_scope
#define PINCH_TRACE_ENTER() pinch_trace_scope.enter()
#define PINCH_TRACE_PARAMETER , ::pinch::trace::WarpScope& pinch_trace_scope
#define PINCH_TRACE_PASSED , pinch_trace_scope
#define PINCH_TRACE_MEMBER ::pinch::trace::WarpScope& pinch_trace_scope;
#define PINCH_TRACE_NOW(moment) unsigned moment = ::pinch::trace::WarpScope::now()
#define PINCH_TRACE_RENEW(moment) moment = ::pinch::trace::WarpScope::now()
#define PINCH_TRACE_STEP_AT(moment, role, step)                                                \
  pinch_trace_scope.put(moment, ::pinch::trace::EventKind::kStep, static_cast<unsigned>(role), \
                        static_cast<unsigned>(step))
#define PINCH_TRACE_WAIT_AT(begin, end, what) pinch_trace_scope.put_wait(begin, end, static_cast<unsigned>(what))
#define PINCH_TRACE_ROW(row) unsigned row = 0
#define PINCH_TRACE_KEEP(row, step, moment) row = ::pinch::trace::WarpScope::keeps(step) ? moment : row
#define PINCH_TRACE_STEPS_OF(row, role, low, high) \
  pinch_trace_scope.put_steps(row, static_cast<unsigned>(role), low, high)
#define PINCH_TRACE_WAITS_OF(begin_row, end_row, what, low, high) \
  pinch_trace_scope.put_waits(begin_row, end_row, static_cast<unsigned>(what), low, high)
#define PINCH_TRACE_STEP(role, step) PINCH_TRACE_STEP_AT(::pinch::trace::WarpScope::now(), role, step)
#define PINCH_TRACE_WAIT(what) \
  ::pinch::trace::WarpWait PINCH_TRACE_JOIN(pinch_trace_wait_, __LINE__)(pinch_trace_scope, static_cast<unsigned>(what))
#else
#define PINCH_TRACE_ATTACH(session) (session).attached(cudaSuccess)
#define PINCH_TRACE_SCOPE() static_cast<void>(0)
#define PINCH_TRACE_SCOPE_LATER() static_cast<void>(0)
#define PINCH_TRACE_ENTER() static_cast<void>(0)
#define PINCH_TRACE_PARAMETER
#define PINCH_TRACE_PASSED
#define PINCH_TRACE_MEMBER
#define PINCH_TRACE_NOW(moment) static_cast<void>(0)
#define PINCH_TRACE_RENEW(moment) static_cast<void>(0)
#define PINCH_TRACE_ROW(row) static_cast<void>(0)
#define PINCH_TRACE_KEEP(row, step, moment) static_cast<void>(0)
#define PINCH_TRACE_STEPS_OF(row, role, low, high) static_cast<void>(0)
#define PINCH_TRACE_WAITS_OF(begin_row, end_row, what, low, high) static_cast<void>(0)
#define PINCH_TRACE_STEP_AT(moment, role, step) static_cast<void>(0)
#define PINCH_TRACE_WAIT_AT(begin, end, what) static_cast<void>(0)
#define PINCH_TRACE_STEP(role, step) static_cast<void>(0)
#define PINCH_TRACE_WAIT(what) static_cast<void>(0)
#endif

#if PINCH_TRACE_LEVEL >= 2
#define PINCH_TRACE_PHASE(name)                                                              \
  pinch_trace_scope.put(::pinch::trace::WarpScope::now(), ::pinch::trace::EventKind::kPhase, \
                        static_cast<unsigned>(name), 0)
#else
#define PINCH_TRACE_PHASE(name) static_cast<void>(0)
#endif
