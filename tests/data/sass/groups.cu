// wgmma groups that a wait leaves in flight: loops that differ in the N of wgmma.wait_group alone. Built by build.sh.
extern "C" {

#define PINCH_WGMMA(d, a, b)                                                                                     \
  asm volatile(                                                                                                  \
      "wgmma.fence.sync.aligned;\n"                                                                              \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, 1, 1, 0, 0;\n" \
      "wgmma.commit_group.sync.aligned;"                                                                         \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])           \
      : "l"(a), "l"(b))
#define PINCH_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")

// Two accumulators in turn, a product a group.
#define PINCH_GROUPS(name, n)                                                                                      \
  __global__ void __launch_bounds__(128) name(unsigned long long a, unsigned long long b, float* out, int count) { \
    float d[8] = {}, e[8] = {};                                                                                    \
    _Pragma("unroll 1") for (int i = 0; i < count; ++i) {                                                          \
      PINCH_WGMMA(d, a, b);                                                                                        \
      PINCH_WAIT(n);                                                                                               \
      PINCH_WGMMA(e, a + 2, b + 2);                                                                                \
      PINCH_WAIT(n);                                                                                               \
    }                                                                                                              \
    PINCH_WAIT(0);                                                                                                 \
    for (int i = 0; i < 8; ++i) out[8 * threadIdx.x + i] = d[i] + e[i];                                            \
  }
PINCH_GROUPS(groups_wait0, 0)
PINCH_GROUPS(groups_wait1, 1)
PINCH_GROUPS(groups_wait7, 7)

}  // extern "C"
