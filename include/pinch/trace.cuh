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
// with no fence and no atomic. A full buffer keeps its first events and counts the rest. STEP, WAIT and PHASE name the
// innermost scope of the function that they are in, so a role that is a function of its own begins with
// PINCH_TRACE_SCOPE(), and one that it calls takes the scope: `void multiply(float* sums PINCH_TRACE_PARAMETER)`,
// called as `multiply(sums PINCH_TRACE_PASSED)`. A warp has one scope a launch; a second is counted as a lost track,
// and so is one of a CTA or warp beyond those that the session has room for.
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
  std::uint64_t begin_ticks, begin_ns;  // begin_ns 0: nobody was here
  std::uint64_t end_ticks, end_ns;      // 0: still running
  std::uint64_t emitted;
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
      if (entry.begin_ns == 0) continue;
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

/// A warp's buffer, in registers of the lane that writes.
class WarpScope {
 public:
  __device__ __forceinline__ WarpScope() {
    const unsigned active = __activemask();
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    writes_ = lane + 1 == static_cast<unsigned>(__ffs(static_cast<int>(active)));
    if (!writes_) return;
    const unsigned cta = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned warp = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;
    const std::size_t place = std::size_t{cta} * device_buffers.warps_of_cta + warp;
    if (device_buffers.ctas == 0) {  // nobody attached a session
      writes_ = false;
    } else if (cta >= device_buffers.ctas || warp >= device_buffers.warps_of_cta ||
               device_buffers.warps[place].begin_ns != 0) {
      atomicAdd(device_buffers.lost_warps, 1ULL);
      writes_ = false;
    } else {
      entry_ = device_buffers.warps + place;
      events_ = device_buffers.events + place * device_buffers.events_of_warp;
      unsigned sm;
      asm("mov.u32 %0, %%smid;" : "=r"(sm));
      entry_->cta = cta;
      entry_->sm = sm;
      entry_->begin_ticks = static_cast<std::uint64_t>(clock64());
      entry_->begin_ns = wall();
    }
  }

  __device__ __forceinline__ ~WarpScope() {
    if (!writes_) return;
    const auto ticks = static_cast<std::uint64_t>(clock64());
    const std::uint64_t ns = wall();
    put(ticks, EventKind::kEnd, 0, 0);
    entry_->emitted = next_;
    entry_->end_ticks = ticks;
    entry_->end_ns = ns;
  }

  __device__ __forceinline__ void mark(EventKind kind, unsigned name, unsigned value) {
    const auto ticks = static_cast<std::uint64_t>(clock64());
    if (writes_) put(ticks, kind, name, value);
  }

  __device__ __forceinline__ void mark_wait(std::uint64_t begin, unsigned name) {
    const auto ticks = static_cast<std::uint64_t>(clock64());
    const std::uint64_t length = ticks - begin;
    if (writes_) put(ticks, EventKind::kWait, name, length < kAtLeast ? static_cast<unsigned>(length) : kAtLeast);
  }

 private:
  __device__ __forceinline__ static std::uint64_t wall() {
    std::uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  }

  __device__ __forceinline__ void put(std::uint64_t ticks, EventKind kind, unsigned name, unsigned value) {
    if (next_ < device_buffers.events_of_warp) {
      const uint4 bits = {static_cast<unsigned>(ticks), static_cast<unsigned>(ticks >> 32), value,
                          (name & 0xffffU) | static_cast<unsigned>(kind) << 16};
      __stcs(reinterpret_cast<uint4*>(events_ + next_), bits);  // read by nobody here: evicted first
    }
    ++next_;
  }

  WarpEntry* entry_ = nullptr;
  Event* events_ = nullptr;
  unsigned next_ = 0;
  bool writes_ = false;
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
#define PINCH_TRACE_STEP(role, step) \
  pinch_trace_scope.mark(::pinch::trace::EventKind::kStep, static_cast<unsigned>(role), static_cast<unsigned>(step))
#define PINCH_TRACE_WAIT(what) \
  ::pinch::trace::WarpWait PINCH_TRACE_JOIN(pinch_trace_wait_, __LINE__)(pinch_trace_scope, static_cast<unsigned>(what))
#else
#define PINCH_TRACE_ATTACH(session) (session).attached(cudaSuccess)
#define PINCH_TRACE_SCOPE() static_cast<void>(0)
#define PINCH_TRACE_PARAMETER
#define PINCH_TRACE_PASSED
#define PINCH_TRACE_STEP(role, step) static_cast<void>(0)
#define PINCH_TRACE_WAIT(what) static_cast<void>(0)
#endif

#if PINCH_TRACE_LEVEL >= 2
#define PINCH_TRACE_PHASE(name) \
  pinch_trace_scope.mark(::pinch::trace::EventKind::kPhase, static_cast<unsigned>(name), 0)
#else
#define PINCH_TRACE_PHASE(name) static_cast<void>(0)
#endif
