// Function attributes that let one function use an instruction set the build's baseline lacks. A function so marked may
// run only after cpu_machine() found the set. Helpers of the same set are PINCH_INLINE, because vectors do not cross a
// call between functions of different sets.
#pragma once

#define PINCH_INLINE [[gnu::always_inline]] inline

#define PINCH_AVX2 [[gnu::target("avx2,fma")]]
#define PINCH_AVX512 [[gnu::target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]]
#define PINCH_AVX512_BF16 [[gnu::target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]]
#define PINCH_AMX_BF16 [[gnu::target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")]]
