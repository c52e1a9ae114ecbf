// Marks in a CUDA C++ kernel that say which step a warp is at and what it waits for. No dependency but
// pinch/trace_file.h.
//
//   PINCH_TRACE_SCOPE();            the warp's lanes that are here take part until the end of the block
//   PINCH_TRACE_STEP(role, step);   step number `step` of `role` begins, and the warp's earlier step ends
//   PINCH_TRACE_WAIT(what);         until the end of the block the warp waits for `what`
//   PINCH_TRACE_PHASE(name);        the next part of the step begins (detailed only)
//
// Roles, waits and phases are indices into the Names of the CudaSession. PINCH_TRACE_LEVEL chooses at compile time: 0
// (off, the default) makes every mark nothing, so the SASS is that of the kernel without them; 1 (coarse) keeps steps
// and waits; 2 (detailed) phases too, which slows the steps, since each read of the clock stands in the way of the
// compiler's schedule.
//
// A warp writes to a buffer of its own: one lane (the lowest of those that enter the scope) stores 16 bytes a mark,
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

/// What one warp leaves beside its events.
struct WarpEntry {
  std::uint64_t begin_ticks, begin_ns;
  std::uint64_t end_ticks, end_ns;  // 0: still running
  std::uint32_t emitted;
  std::uint32_t scopes;  // that were entered; 0: nobody was here
  std::uint32_t cta, sm;
};

/// What the device is told; in constant memory of each source file that has marks.
struct DeviceBuffers {
  WarpEntry* warps = nullptr;
  Event* events = nullptr;  // [ctas * warps_of_cta][events_of_warp]
  unsigned long long* lost_warps = nullptr;
  std::uint32_t ctas = 0, warps_of_cta = 0, events_of_warp = 0;
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
    good_ = zeroed(buffers_.warps, warps()) && zeroed(buffers_.events, warps() * room.events_of_warp) &&
            zeroed(buffers_.lost_warps, 1);
    if (!good_) buffers_.ctas = 0;
  }
  CudaSession(const CudaSession&) = delete;
  CudaSession& operator=(const CudaSession&) = delete;
  ~CudaSession() {
    finish();
    cudaFree(buffers_.warps);
    cudaFree(buffers_.events);
    cudaFree(buffers_.lost_warps);
  }

  /// For PINCH_TRACE_ATTACH.
  [[nodiscard]] const DeviceBuffers& buffers() const { return buffers_; }
  void attached(cudaError_t status) { good_ = good_ && status == cudaSuccess; }

  /// Forgets the launches so far, so that the next is traced: a program that times several with their marks on keeps
  /// the last.
  void again() {
    if (buffers_.ctas == 0) return;
    good_ = good_ && zero(buffers_.warps, warps()) && zero(buffers_.events, warps() * buffers_.events_of_warp) &&
            zero(buffers_.lost_warps, 1);
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
    std::vector<Event> events(buffers_.events_of_warp);
    for (std::size_t t = 0; t < tracks.size() && good_; ++t) {
      good_ = read(events.data(), buffers_.events + places[t] * buffers_.events_of_warp, events.size());
      writer.block(static_cast<std::uint32_t>(t), 0, events.data(),
                   std::min<std::size_t>(tracks[t].emitted, kept(events)));
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

  static std::size_t kept(const std::vector<Event>& events) {
    const auto end = std::find_if(events.begin(), events.end(), [](const Event& e) { return e.kind == 0; });
    return static_cast<std::size_t>(end - events.begin());
  }

  void read_entries(FileHeader& header, std::vector<TrackEntry>& tracks, std::vector<std::size_t>& places) {
    std::vector<WarpEntry> entries(warps());
    unsigned long long lost = 0;
    good_ = cudaDeviceSynchronize() == cudaSuccess && read(entries.data(), buffers_.warps, entries.size()) &&
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
      track.group = entry.cta;
      track.unit = entry.sm;
      track.index = static_cast<std::uint32_t>(w % buffers_.warps_of_cta);
      track.begin_ticks = entry.begin_ticks;
      track.begin_ns = entry.begin_ns;
      track.end_ticks = entry.end_ticks;
      track.end_ns = entry.end_ns;
      track.emitted = entry.emitted;
      if (entry.end_ns == 0) {  // it never ended and left no count: what it wrote is what is not zero
        std::vector<Event> events(buffers_.events_of_warp);
        good_ = good_ && read(events.data(), buffers_.events + w * events.size(), events.size());
        track.emitted = kept(events);
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
  __device__ __forceinline__ WarpScope() {
    const unsigned active = __activemask();
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    if (lane + 1 != static_cast<unsigned>(__ffs(static_cast<int>(active)))) return;
    if (device_buffers.ctas == 0) return;  // nobody attached a session
    if (cta() >= device_buffers.ctas || warp() >= device_buffers.warps_of_cta) {
      atomicAdd(device_buffers.lost_warps, 1ULL);
      return;
    }
    end_ = device_buffers.events + (place() + 1) * device_buffers.events_of_warp;
    past_ = -static_cast<int>(device_buffers.events_of_warp);
    WarpEntry& entry = device_buffers.warps[place()];
    atomicAdd(&entry.scopes, 1U);  // nobody waits for its answer, as one would for a load's
    unsigned sm;
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    entry.cta = cta();
    entry.sm = sm;
    entry.begin_ticks = static_cast<std::uint64_t>(clock64());
    entry.begin_ns = wall();
  }

  __device__ __forceinline__ ~WarpScope() {
    const auto ticks = static_cast<std::uint64_t>(clock64());
    put(ticks, EventKind::kEnd, 0, 0);
    if (past_ >= kNoWriter) return;
    WarpEntry& entry = device_buffers.warps[place()];
    entry.emitted = device_buffers.events_of_warp + static_cast<unsigned>(past_);
    entry.end_ticks = ticks;
    entry.end_ns = wall();
  }

  __device__ __forceinline__ void mark(EventKind kind, unsigned name, unsigned value) {
    put(static_cast<std::uint64_t>(clock64()), kind, name, value);
  }

  __device__ __forceinline__ void mark_wait(std::uint64_t begin, unsigned name) {
    const auto ticks = static_cast<std::uint64_t>(clock64());
    const std::uint64_t length = ticks - begin;
    put(ticks, EventKind::kWait, name, length < kAtLeast ? static_cast<unsigned>(length) : kAtLeast);
  }

 private:
  __device__ __forceinline__ static unsigned cta() {
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  }
  __device__ __forceinline__ static unsigned warp() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;
  }
  __device__ __forceinline__ static std::size_t place() {
    return std::size_t{cta()} * device_buffers.warps_of_cta + warp();
  }
  __device__ __forceinline__ static std::uint64_t wall() {
    std::uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  }

  // .cs: read by nobody here, so evicted first.
  __device__ __forceinline__ void put(std::uint64_t ticks, EventKind kind, unsigned name, unsigned value) {
    asm volatile(
        "{\n .reg .pred fits;\n setp.lt.s32 fits, %0, 0;\n @fits st.global.cs.v4.u32 [%1], {%2, %3, %4, %5};\n}"
        :
        : "r"(past_), "l"(end_ + past_), "r"(static_cast<unsigned>(ticks)), "r"(static_cast<unsigned>(ticks >> 32)),
          "r"(value), "r"((name & 0xffffU) | static_cast<unsigned>(kind) << 16));
    ++past_;
  }

  static constexpr int kNoWriter = 1 << 30;

  Event* end_ = nullptr;  // of the warp's buffer
  int past_ = kNoWriter;  // where the next event goes: below 0 while it fits; from kNoWriter on the lane does not write
};

class WarpWait {
 public:
  __device__ __forceinline__ WarpWait(WarpScope& scope, unsigned name) : scope_(scope), name_(name) {
    begin_ = static_cast<std::uint64_t>(clock64());  // not above: host compilers read initialisers and know no clock64
  }
  __device__ __forceinline__ ~WarpWait() { scope_.mark_wait(begin_, name_); }

 private:
  WarpScope& scope_;
  unsigned name_;
  std::uint64_t begin_;
};

}  // namespace pinch::trace

#define PINCH_TRACE_JOIN2(a, b) a##b
#define PINCH_TRACE_JOIN(a, b) PINCH_TRACE_JOIN2(a, b)
#define PINCH_TRACE_ATTACH(session) \
  (session).attached(               \
      cudaMemcpyToSymbol(::pinch::trace::device_buffers, &(session).buffers(), sizeof(::pinch::trace::DeviceBuffers)))
#define PINCH_TRACE_SCOPE() ::pinch::trace::WarpScope pinch_trace_scope
#define PINCH_TRACE_PARAMETER , ::pinch::trace::WarpScope& pinch_trace_scope
#define PINCH_TRACE_PASSED , pinch_trace_scope
#define PINCH_TRACE_MEMBER ::pinch::trace::WarpScope& pinch_trace_scope;
#define PINCH_TRACE_STEP(role, step) \
  pinch_trace_scope.mark(::pinch::trace::EventKind::kStep, static_cast<unsigned>(role), static_cast<unsigned>(step))
#define PINCH_TRACE_WAIT(what) \
  ::pinch::trace::WarpWait PINCH_TRACE_JOIN(pinch_trace_wait_, __LINE__)(pinch_trace_scope, static_cast<unsigned>(what))
#else
#define PINCH_TRACE_ATTACH(session) (session).attached(cudaSuccess)
#define PINCH_TRACE_SCOPE() static_cast<void>(0)
#define PINCH_TRACE_PARAMETER
#define PINCH_TRACE_PASSED
#define PINCH_TRACE_MEMBER
#define PINCH_TRACE_STEP(role, step) static_cast<void>(0)
#define PINCH_TRACE_WAIT(what) static_cast<void>(0)
#endif

#if PINCH_TRACE_LEVEL >= 2
#define PINCH_TRACE_PHASE(name) \
  pinch_trace_scope.mark(::pinch::trace::EventKind::kPhase, static_cast<unsigned>(name), 0)
#else
#define PINCH_TRACE_PHASE(name) static_cast<void>(0)
#endif
