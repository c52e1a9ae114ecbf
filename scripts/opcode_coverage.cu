// Code that makes ptxas emit many different opcodes; scripts/derive_opcodes.py reads what comes out. It is never run.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

namespace cg = cooperative_groups;

template <class T>
__global__ void block_algorithms(T* data, int n) {
  using Sort = cub::BlockRadixSort<T, 128, 4>;
  using Reduce = cub::BlockReduce<T, 128>;
  using Scan = cub::BlockScan<T, 128>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Reduce::TempStorage reduce;
    typename Scan::TempStorage scan;
  } storage;
  T keys[4];
  for (int i = 0; i < 4; ++i) keys[i] = data[threadIdx.x * 4 + i];
  Sort(storage.sort).Sort(keys);
  __syncthreads();
  T sum = Reduce(storage.reduce).Sum(keys);
  __syncthreads();
  Scan(storage.scan).InclusiveSum(keys[0], keys[1]);
  for (int i = 0; i < 4; ++i) data[threadIdx.x * 4 + i] = keys[i] + sum;
}
template __global__ void block_algorithms<int>(int*, int);
template __global__ void block_algorithms<float>(float*, int);
template __global__ void block_algorithms<double>(double*, int);
template __global__ void block_algorithms<unsigned long long>(unsigned long long*, int);
template __global__ void block_algorithms<unsigned short>(unsigned short*, int);

__global__ void scalar_math(float* f, double* d, int* i, long long* l, unsigned* u, __half* h, __nv_bfloat16* b) {
  const int t = threadIdx.x;
  f[t] = sinf(f[t]) + cosf(f[t + 1]) + tanf(f[t + 2]) + expf(f[t + 3]) + logf(f[t + 4]) + powf(f[t + 5], f[t + 6]) +
         sqrtf(f[t + 7]) + rsqrtf(f[t + 8]) + f[t + 9] / f[t + 10] + fmodf(f[t + 11], f[t + 12]) + __sinf(f[t + 13]) +
         __cosf(f[t + 14]) + __log2f(f[t]) + tanhf(f[t + 15]) + rintf(f[t]) + floorf(f[t + 1]) + truncf(f[t + 2]) +
         fminf(f[t], f[t + 3]) + copysignf(f[t], f[t + 1]) + ldexpf(f[t], i[t]);
  d[t] = sin(d[t]) + exp(d[t + 1]) + log(d[t + 2]) + sqrt(d[t + 3]) + d[t + 4] / d[t + 5] + fmin(d[t], d[t + 1]) +
         floor(d[t + 2]) + (d[t] > d[t + 1] ? d[t] : 1.0);
  i[t] = i[t] / i[t + 1] + i[t + 2] % i[t + 3] + __popc(i[t]) + __clz(i[t + 1]) + __ffs(i[t + 2]) + __brev(i[t]) +
         abs(i[t + 4]) + min(i[t], i[t + 5]) + max(i[t + 1], i[t + 6]) + __mulhi(i[t], i[t + 1]) +
         __byte_perm(i[t], i[t + 1], i[t + 2]) + __funnelshift_l(i[t], i[t + 1], i[t + 2]) +
         __dp4a(i[t], i[t + 1], i[t + 2]) + __sad(i[t], i[t + 1], i[t + 2]) + __vadd4(i[t], i[t + 1]) +
         __vmaxs2(i[t], i[t + 1]) + __vcmpeq4(i[t], i[t + 1]) + __viaddmax_s32(i[t], i[t + 1], i[t + 2]);
  l[t] = l[t] / l[t + 1] + l[t + 2] * l[t + 3] + (l[t] << (l[t + 1] & 63)) + (l[t + 2] >> 3) + __popcll(l[t]) +
         __clzll(l[t]) + static_cast<long long>(f[t]) + static_cast<long long>(d[t]);
  u[t] = static_cast<unsigned>(f[t]) + static_cast<unsigned>(d[t]) + u[t] / 7 + u[t + 1] % 13 +
         __float2uint_rn(f[t + 1]) + __match_any_sync(~0u, u[t]) + __ballot_sync(~0u, u[t] > 3) +
         __any_sync(~0u, u[t] > 4) + __activemask() + __shfl_sync(~0u, u[t], 3) + __shfl_up_sync(~0u, u[t], 1) +
         __shfl_down_sync(~0u, u[t], 1) + __reduce_add_sync(~0u, u[t]) + __reduce_min_sync(~0u, u[t]);
  f[t + 20] = static_cast<float>(i[t]) + static_cast<float>(u[t]) + static_cast<float>(l[t]) +
              static_cast<float>(d[t]) + __half2float(h[t]) + __bfloat162float(b[t]) + __uint2float_rn(u[t]);
  d[t + 20] = static_cast<double>(i[t]) + static_cast<double>(l[t]) + static_cast<double>(f[t]);
  h[t] = __hfma(h[t], h[t + 1], h[t + 2]) + __hadd(h[t], h[t + 1]) + hexp2(h[t]) + hrcp(h[t + 1]) +
         __hmax(h[t], h[t + 1]) + htanh(h[t]) + __float2half(f[t]) + static_cast<__half>(i[t]) + hlog2(h[t]) +
         hsqrt(h[t]);
  b[t] = __hfma(b[t], b[t + 1], b[t + 2]) + __hmul(b[t], b[t + 1]) + __hmin(b[t], b[t + 1]) + __float2bfloat16(f[t]) +
         hexp2(b[t]) + __ushort_as_bfloat16(static_cast<unsigned short>(u[t]));
  const __half2 h2 =
      __hfma2(__halves2half2(h[t], h[t + 1]), __halves2half2(h[t + 2], h[t + 3]), __halves2half2(h[t + 4], h[t + 5]));
  h[t + 8] = __hgt2(h2, __hneg2(h2)).x;
  h[t + 9] = __hmax2(h2, __habs2(h2)).y;
  __nv_fp8_e4m3 e(f[t]);
  __nv_fp8_e5m2 e5(f[t + 1]);
  f[t + 30] = static_cast<float>(e) + static_cast<float>(e5);
  if (h[t] > h[t + 1]) __nanosleep(100);
  if (i[t] == 77) __trap();
  if (i[t] == 78) printf("%d\n", i[t]);
  if (i[t] == 79) asm volatile("brkpt;");
  switch (i[t + 9]) {
    case 0:
      f[0] = 1;
      break;
    case 1:
      d[0] = 2;
      break;
    case 2:
      u[1] = 3;
      break;
    case 3:
      l[2] = 4;
      break;
    case 4:
      i[3] = 5;
      break;
    case 5:
      f[9] = 6;
      break;
    case 6:
      d[7] = 6;
      break;
  }
}

__device__ __noinline__ int called(int x, int (*f)(int)) {
  return f(x) * 3 + clock();
}
__device__ int by_pointer(int x) {
  return x * x;
}

__global__ void memory_and_control(int* i, float* f, double* d, unsigned long long* l, cudaTextureObject_t tex,
                                   cudaSurfaceObject_t surf, __half2* h) {
  __shared__ int s[256];
  extern __shared__ float4 dynamic[];
  const int t = threadIdx.x;
  s[t] = i[t];
  __syncthreads();
  dynamic[t] = reinterpret_cast<float4*>(f)[t];
  cg::this_grid().sync();
  atomicAdd(&i[0], 1);
  i[t] = atomicAdd(&i[1], s[t ^ 1]) + atomicCAS(&i[2], 1, 2) + atomicExch(&s[3], t) + atomicMax(&s[4], t);
  f[t] = atomicAdd(&f[1], 2.f);
  d[t] = atomicAdd(&d[1], 2.0);
  atomicAdd(&h[2], h[3]);
  l[t] = atomicCAS(&l[2], 3ull, 4ull) + clock64() + __ldcg(&l[5]) + __ldcs(&l[6]) + __ldcv(&l[7]);
  __stcs(&l[9], 4ull);
  f[t + 1] = tex2D<float>(tex, f[t], f[t + 1]) + tex1Dfetch<float>(tex, t) + tex3D<float>(tex, f[t], f[t], f[t]) +
             tex2DLod<float>(tex, 1, 2, f[t]);
  surf2Dwrite(f[t], surf, t, t);
  f[t + 2] = surf2Dread<float>(surf, t, t);
  __threadfence();
  __threadfence_block();
  __threadfence_system();
  asm volatile("prefetch.global.L2 [%0];" ::"l"(f));
  asm volatile("bar.arrive 2, 64;");
  asm volatile("barrier.cta.sync 3, 64;");
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(dynamic + t))),
      "l"(f));
  asm volatile("cp.async.commit_group; cp.async.wait_group 0;");
  unsigned m[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(s))));
  i[t + 7] = m[0] + m[1] + m[2] + m[3] + called(i[t], i[3] ? by_pointer : nullptr);
  int local[40];
  for (int k = 0; k < 40; ++k) local[k] = i[k];
  i[t + 3] = local[i[t] & 31];
  volatile int* v = i;
  i[9] = v[3] + *reinterpret_cast<volatile short*>(&v[8]) + *reinterpret_cast<volatile unsigned char*>(&v[9]);
  long long generic = reinterpret_cast<long long>(t & 1 ? s : i);
  i[11] = *reinterpret_cast<int*>(generic) + __isShared(reinterpret_cast<void*>(generic));
}

__global__ void matrix(const unsigned* a, float* f, int* i, double* d, __half* h) {
  const int t = threadIdx.x;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};"
               : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]));
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};"
      : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};"
               : "+r"(i[0]), "+r"(i[1]), "+r"(i[2]), "+r"(i[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+d"(d[0]), "+d"(d[1])
               : "d"(d[2]), "d"(d[3]));
#if __CUDA_ARCH__ >= 890
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};"
      : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
#endif
  unsigned m = a[t];
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(m));
  i[t] = m;
  f[t] = f[t + 1] * f[t + 2];
  h[t] = h[t + 1] * h[t + 2];
}

struct TensorMap {
  alignas(64) char bytes[128];
};

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
__global__ void __cluster_dims__(2, 1, 1) asynchronous(const __grid_constant__ TensorMap tensor_map, int* i, float* f) {
#if __CUDA_ARCH__ >= 900
  const TensorMap* map = &tensor_map;
  __shared__ alignas(1024) char buffer[8192];
  __shared__ unsigned long long barrier;
  const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(&barrier)),
                 buf = static_cast<unsigned>(__cvta_generic_to_shared(buffer));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
  asm volatile("fence.mbarrier_init.release.cluster;");
  asm volatile("fence.proxy.async.shared::cta;");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(bar));
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          buf),
      "l"(map), "r"(i[0]), "r"(i[1]), "r"(bar)
      : "memory");
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
      "%3}], [%4], %5;" ::"r"(buf),
      "l"(map), "r"(i[0]), "r"(i[1]), "r"(bar), "h"(static_cast<short>(3))
      : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(buf),
               "l"(f), "r"(bar)
               : "memory");
  asm volatile("{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra WAIT; }" ::"r"(bar)
               : "memory");
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1, {%2, %3}], [%0];" ::"r"(buf), "l"(map),
               "r"(i[0]), "r"(i[1])
               : "memory");
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(f), "r"(buf) : "memory");
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 1024;" ::"l"(f), "r"(buf)
               : "memory");
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;");
  asm volatile("prefetch.tensormap [%0];" ::"l"(map));
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%1,%1,%1};" ::"r"(buf), "r"(i[3]));
  unsigned remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(remote) : "r"(bar));
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote));
  asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;");
  int elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.s32 %0, 1, 0, p; }" : "=r"(elected));
  i[5] = elected;
#if __CUDA_ARCH__ >= 1000
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(buf));
  const unsigned tmem = *reinterpret_cast<volatile unsigned*>(buffer);
  for (int k = 0; k < i[8]; ++k) {
    for (int j = 0; j < 2; ++j) {
      asm volatile(
          "{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(tmem),
          "l"(0x4000000000010000ull + k), "l"(0x4000000000020000ull + j), "r"(0x8200490), "r"(k));
      asm volatile(
          "{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p; }" ::"r"(
              tmem),
          "l"(0x4000000000010000ull + k), "l"(0x4000000000020000ull + j), "r"(0x8200490), "r"(k));
      asm volatile(
          "{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [%0], "
          "%1, %2, %3, [%5], [%6], p; }" ::"r"(tmem),
          "l"(0x4000000000010000ull + k), "l"(0x4000000000020000ull + j), "r"(0x8200490), "r"(k), "r"(tmem + 64),
          "r"(tmem + 80));
    }
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar));
  }
  unsigned t0, t1, t2, t3;
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(t0), "=r"(t1), "=r"(t2), "=r"(t3)
               : "r"(tmem));
  asm volatile("tcgen05.wait::ld.sync.aligned;");
  asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%4], {%0,%1,%2,%3};" ::"r"(t0), "r"(t1), "r"(t2), "r"(t3),
               "r"(tmem));
  asm volatile("tcgen05.wait::st.sync.aligned;");
  asm volatile("tcgen05.cp.cta_group::1.128x256b [%0], %1;" ::"r"(tmem), "l"(0x4000000000010000ull));
  asm volatile("tcgen05.fence::before_thread_sync;");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(tmem));
  i[t0 & 7] = t1;
#endif
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar));
#endif
}
#endif

template <class T>
void device_algorithms(T* in, T* out, int n) {
  size_t bytes = 0;
  cub::DeviceRadixSort::SortKeys(nullptr, bytes, in, out, n);
  cub::DeviceReduce::Sum(nullptr, bytes, in, out, n);
  cub::DeviceScan::InclusiveSum(nullptr, bytes, in, out, n);
  cub::DeviceSelect::Unique(nullptr, bytes, in, out, &n, n);
}
void instantiate(float* f, long long* l, int* h) {
  device_algorithms(f, f, 1);
  device_algorithms(l, l, 1);
  size_t bytes = 0;
  cub::DeviceHistogram::HistogramEven(nullptr, bytes, f, h, 10, 0.f, 1.f, 5);
}
