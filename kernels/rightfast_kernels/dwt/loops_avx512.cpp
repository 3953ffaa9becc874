// The loops in AVX-512.
#include "loops.h"
#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,fma,prefer-vector-width=512")
#endif
#define RIGHTFAST_SET avx512
#define RIGHTFAST_BYTES 64
#include "loops_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
