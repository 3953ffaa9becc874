// The loops in AVX2 and FMA.
#include "loops.h"
#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define RIGHTFAST_SET avx2
#define RIGHTFAST_BYTES 32
#include "loops_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
