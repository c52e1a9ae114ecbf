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
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%2}, {%0,%1};"
               : "+r"(i[0]), "+r"(i[1])
               : "r"(a[0]), "r"(a[1]));
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%2,%3}, {%0,%1};"
               : "+r"(i[2]), "+r"(i[3])
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

// Warp-uniform arithmetic of every width, which ptxas puts on the uniform datapath, and loops that are left early.
__global__ void uniform_and_breaks(const int* in, int* out, unsigned n, long long stride, unsigned long long mask,
                                   float x, float* f) {
  const unsigned t = threadIdx.x;
  const long long row = blockIdx.x * stride + static_cast<long long>(blockIdx.y) * n;
  unsigned found = 0;
  for (unsigned i = 0; i < n; ++i) {
    if (in[i + row] == static_cast<int>(t)) break;
    for (unsigned j = t; j < i; ++j) {
      if (in[j] == 9) break;
      found += in[j] ^ in[j + 1];
    }
    if (found > 1000) continue;
    out[i] = found;
  }
  const bool a = n > 3, b = stride > 7, c = (mask & 1) != 0;
  if ((a && !b) || (c && blockIdx.z > 1)) out[row + t] = __clz(n) + __popc(n) + __brev(n) + __ffs(n + blockIdx.x);
  if ((a ^ b) && (b || c)) out[1] = static_cast<int>(mask >> (n & 63)) + min(n, blockIdx.x) + max(n, blockIdx.y);
  out[2] = n * blockIdx.x + gridDim.x * gridDim.y + (n << 3) + (a ? n : blockIdx.x) + abs(static_cast<int>(n));
  out[3] = static_cast<int>(__umulhi(n, blockIdx.x)) + (n / 10) + static_cast<int>(stride * blockIdx.z);
  f[0] = x * static_cast<float>(n) + static_cast<float>(blockIdx.x) + fminf(x, static_cast<float>(n)) + fabsf(x);
  f[1] = static_cast<float>(__ldg(in + t)) * x - static_cast<float>(stride);
  f[2] = __int2float_rz(static_cast<int>(n)) + static_cast<float>(static_cast<int>(x));
  f[3] = static_cast<float>(static_cast<double>(x) * stride);
  if (x > static_cast<float>(n) && x < static_cast<float>(blockIdx.x)) f[4] = x;
  out[4 + t] = abs(in[t]) + abs(in[t] - static_cast<int>(n)) + max(min(in[t + 1] + static_cast<int>(n), in[t]), 0) +
               min(in[t], static_cast<int>(n)) + max(in[t], 1234567) + __vimax3_s32(in[t], in[t + 2], in[t + 3]);
  f[t + 8] = fminf(fmaxf(f[t], -x), 3.5f) + fmaxf(f[t + 1], x);
  reinterpret_cast<long long*>(out)[t] = static_cast<long long>(in[t]) * static_cast<int>(n) + stride +
                                         static_cast<long long>(in[t]) * in[t + 1] + 12345ll * in[t];
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(n & 7), "r"(n & 992));
  asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(in[0] & 7), "r"(in[1] & 992));
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(f + t), "f"(x));
  asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(f + t + 32), "r"(n));
  asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(t * 4), "r"(n));
  asm volatile("discard.global.L2 [%0], 128;" ::"l"(f));
  asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(f));
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 0.5;" : "=l"(policy));
  int kept;
  asm volatile("ld.global.L2::cache_hint.s32 %0, [%1], %2;" : "=r"(kept) : "l"(in + t), "l"(policy));
  out[t + 99] = kept;
}

// Every width of every kind of memory.
template <class T>
__global__ void widths(volatile T* global, int n) {
  __shared__ volatile T shared[64];
  T local[64];
  for (int i = 0; i < 64; ++i) local[i] = global[i];
  shared[threadIdx.x] = global[threadIdx.x];
  local[n & 63] = shared[n & 63];
  __syncthreads();
  global[threadIdx.x + 64] = shared[63 - threadIdx.x];
  global[threadIdx.x + 128] = local[(n + threadIdx.x) & 63] + local[n & 31];
}
template __global__ void widths<signed char>(volatile signed char*, int);
template __global__ void widths<unsigned char>(volatile unsigned char*, int);
template __global__ void widths<short>(volatile short*, int);
template __global__ void widths<unsigned short>(volatile unsigned short*, int);
template __global__ void widths<int>(volatile int*, int);
template __global__ void widths<long long>(volatile long long*, int);
__global__ void signed_values(const signed char* a, const short* b, const unsigned char* c, const unsigned short* d,
                              int* out) {
  __shared__ signed char sa[64];
  __shared__ short sb[64];
  sa[threadIdx.x] = a[threadIdx.x];
  sb[threadIdx.x] = b[threadIdx.x];
  __syncthreads();
  signed char la[64];
  short lb[64];
  for (int i = 0; i < 64; ++i) la[i] = sa[i], lb[i] = sb[i];
  out[threadIdx.x] = a[out[1]] * 3 + b[out[2]] * 5 + c[out[3]] * 7 + d[out[4]] + sa[out[5] & 63] * 9 +
                     sb[out[6] & 63] * 11 + la[out[7] & 63] * 13 + lb[out[8] & 63];
}

#if __CUDA_ARCH__ >= 900
// Instructions of clusters, bulk copies and products, one by one, with no regard for what they would do.
__global__ void asynchronous_more(const __grid_constant__ TensorMap tensor_map, int* i, float* f, unsigned n) {
  __shared__ alignas(1024) char buffer[4096];
  __shared__ unsigned long long barrier;
  const TensorMap* map = &tensor_map;
  const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(&barrier)),
                 buf = static_cast<unsigned>(__cvta_generic_to_shared(buffer));
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(f), "r"(n * 16) : "memory");
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"(n), "r"(n) : "memory");
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %1}], [%2];" ::"l"(map),
               "r"(n), "r"(buf)
               : "memory");
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(buf), "r"(n),
               "r"(bar)
               : "memory");
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1,%1,%1,%1}, [%2];" ::"r"(buf), "r"(n),
      "r"(bar)
      : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(buf),
      "r"(buf + 1024), "r"(bar)
      : "memory");
  unsigned v = n;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(buf + n));
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(buf + n + 4), "r"(v));
  asm volatile("atom.shared::cluster.add.u32 %0, [%1], %0;" : "+r"(v) : "r"(buf + 8));
  asm volatile("fence.acq_rel.cluster; fence.proxy.tensormap::generic.release.gpu; fence.proxy.alias;" ::: "memory");
  asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
  unsigned long long state;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(bar));
  asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(v)
               : "r"(bar), "l"(state));
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar));
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(buf), "r"(v));
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%1};" ::"r"(buf), "r"(v));
#if __CUDA_ARCH__ >= 1000
#define PRODUCT(kind, rest)                                                                                \
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; tcgen05.mma.cta_group::1.kind::" kind " [%0], " rest \
               " p; }" ::"r"(v),                                                                           \
               "l"(0x4000000000010000ull + n), "l"(0x4000000000020000ull + n), "r"(n))
  PRODUCT("tf32", "%1, %2, %3,");
  PRODUCT("f16", "[%0], %2, %3,");
  PRODUCT("f8f6f4", "[%0], %2, %3,");
#if __CUDA_ARCH__ == 1000
  PRODUCT("i8", "%1, %2, %3,");
  PRODUCT("i8", "[%0], %2, %3,");
#endif
  PRODUCT("mxf8f6f4.block_scale.scale_vec::1X", "%1, %2, %3, [%0], [%0],");
  PRODUCT("mxf4nvf4.block_scale.scale_vec::4X", "%1, %2, %3, [%0], [%0],");
  asm volatile("tcgen05.shift.cta_group::1.down [%0];" ::"r"(v));
  unsigned long long pair = 0;
  asm volatile("{ add.rn.f32x2 %0, %0, %1; mul.rn.f32x2 %0, %0, %1; fma.rn.f32x2 %0, %0, %1, %1; }"
               : "+l"(pair)
               : "l"(state));
  f[threadIdx.x] = __int_as_float(static_cast<int>(pair >> 32));
  float least;
  asm volatile("redux.sync.min.f32 %0, %1, 0xffffffff;" : "=f"(least) : "f"(f[1]));
  f[2] = least;
#endif
#if __CUDA_ARCH__ >= 1000
  asm volatile("max.f32 %0, %0, %1, %2;" : "+f"(least) : "f"(f[3]), "f"(f[4]));
  f[3] = least;
#endif
#if __CUDA_ARCH__ == 900
  float d[4];
  int w[4];
#define WGMMA(shape_and_types, type, out, rest)                                                     \
  asm volatile("wgmma.mma_async.sync.aligned." shape_and_types " {%0,%1,%2,%3}, %4, %5, 1" rest ";" \
               : type(out[0]), type(out[1]), type(out[2]), type(out[3])                             \
               : "l"(0x4000000000010000ull + n), "l"(0x4000000000020000ull + n))
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  WGMMA("m64n8k16.f32.f16.f16", "+f", d, ", 1, 1, 0, 0");
  WGMMA("m64n8k8.f32.tf32.tf32", "+f", d, ", 1, 1");
  WGMMA("m64n8k32.f32.e4m3.e5m2", "+f", d, ", 1, 1");
  WGMMA("m64n8k32.s32.s8.s8", "+r", w, "");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0,%1,%2,%3}, {%5,%5,%5,%5}, %4, 1, 1, 1;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "l"(0x4000000000020000ull + n), "r"(v));
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  f[8] = d[0] + d[1] + d[2] + d[3];
  i[8] = w[0] + w[1] + w[2] + w[3];
#endif
  i[threadIdx.x] = static_cast<int>(v);
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
