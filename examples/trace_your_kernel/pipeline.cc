// Three threads hand blocks of numbers on: one makes them, one transforms them, one adds them up. Who is late?
//   for level in off=0 coarse=1 detailed=2; do
//     g++ -O2 -std=c++20 -pthread -I ../../include -DPINCH_TRACE_LEVEL=${level#*=} pipeline.cc -o pipeline_${level%=*}
//   done
//   pinch trace -- './pipeline_${level}'
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "pinch/trace.h"

enum Roles { kMake, kTransform, kSum };
enum Waits { kSlotOfMake, kMade, kSlotOfTransform, kTransformed };
enum Phases { kRoots, kSines };
constexpr int kBlocks = 200, kBlock = 32768, kSlots = 2;

// Counts what may be taken; a thread that finds nothing waits, and says for what.
class Count {
 public:
  explicit Count(int count) : count_(count) {}
  void put() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_one();
  }
  void take([[maybe_unused]] Waits what) {
    PINCH_TRACE_WAIT(what);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ > 0; });
    --count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_;
};

// Slots between two threads.
struct Channel {
  std::vector<float> slots[kSlots] = {std::vector<float>(kBlock), std::vector<float>(kBlock)};
  Count empty{kSlots}, full{0};
  std::vector<float>& at(int block) { return slots[block % kSlots]; }
};

void make(Channel& out) {
  PINCH_TRACE_SCOPE();
  for (int b = 0; b < kBlocks; ++b) {
    PINCH_TRACE_STEP(kMake, b);
    out.empty.take(kSlotOfMake);
    for (int i = 0; i < kBlock; ++i) out.at(b)[i] = static_cast<float>((b + i) % 97);
    out.full.put();
  }
}

void transform(Channel& in, Channel& out) {
  PINCH_TRACE_SCOPE();
  for (int b = 0; b < kBlocks; ++b) {
    PINCH_TRACE_STEP(kTransform, b);
    in.full.take(kMade);
    out.empty.take(kSlotOfTransform);
    PINCH_TRACE_PHASE(kRoots);
    for (int i = 0; i < kBlock; ++i) out.at(b)[i] = std::sqrt(in.at(b)[i]);
    PINCH_TRACE_PHASE(kSines);
    for (float& value : out.at(b)) value = std::sin(value);
    in.empty.put();
    out.full.put();
  }
}

double sum(Channel& in) {
  PINCH_TRACE_SCOPE();
  double total = 0;
  for (int b = 0; b < kBlocks; ++b) {
    PINCH_TRACE_STEP(kSum, b);
    in.full.take(kTransformed);
    for (const float value : in.at(b)) total += value;
    in.empty.put();
  }
  return total;
}

int main() {
  pinch::trace::Session session(
      pinch::trace::kLevel, "make, transform, sum",
      {{{"make"}, {"transform"}, {"sum"}},
       {{"slot", kTransform}, {"made", kMake}, {"slot of sum", kSum}, {"transformed", kTransform}},
       {"roots", "sines"}});
  double total = 0;
  {
    const auto timed = session.run();
    Channel made, transformed;
    std::thread maker([&] { make(made); });
    std::thread transformer([&] { transform(made, transformed); });
    total = sum(transformed);
    maker.join();
    transformer.join();
  }
  std::printf("%.3f\n", total);
  return session.finish() ? 0 : 1;
}
