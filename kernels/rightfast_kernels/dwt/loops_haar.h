// Haar's loops: a part of loops_body.h.
//
// Across rows there are sums and differences only; the factor of all axes comes with the last one,
// which takes a product and two fused ones where the others take two additions.

// Past the caches (x86: where whole vectors are aligned), so that lines need not be read before they
// are written.
template <bool past, class T, int W, class V>
ALWAYS_INLINE void put(T* to, V x) {
#ifdef __x86_64__
  if constexpr (past && W * sizeof(T) == 64) {
    asm volatile("vmovntps %1, %0" : "=m"(*(typename Lanes<T, W>::Unaligned*)to) : "v"(x));
    return;
  } else if constexpr (past && W * sizeof(T) == 32) {
    asm volatile("vmovntps %1, %0" : "=m"(*(typename Lanes<T, W>::Unaligned*)to) : "x"(x));
    return;
  } else if constexpr (past && W * sizeof(T) == 16) {
    asm volatile("movntps %1, %0" : "=m"(*(typename Lanes<T, W>::Unaligned*)to) : "x"(x));
    return;
  }
#endif
  fetch(to);
  store<T, W>(to, x);
}

// Whether all of `count` rows from `first` on, `step` apart, start at whole vectors of W.
template <class T, int W>
ALWAYS_INLINE bool aligned(T* const* rows, int first, int count, int64_t step) {
  uintptr_t all = step * sizeof(T);
  for (int r = first; r < count; ++r) all |= (uintptr_t)rows[r];
  return all % (W * sizeof(T)) == 0;
}

ALWAYS_INLINE void written() {
#ifdef __x86_64__
  asm volatile("sfence" ::: "memory");
#endif
}

template <class T, int W, int A, bool past>
ALWAYS_INLINE void haar_down_block(const T* const* rows, int64_t from, T* const* bands, int64_t to,
                                   T scale) {
  using V = typename Lanes<T, W>::Vector;
  constexpr int R = 1 << (A - 1);
  V x[R][2];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < 2; ++v) x[r][v] = load<T, W>(rows[r] + from + v * W);
  for (int bit = R / 2; bit; bit /= 2)
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < 2 && !(r & bit); ++v) {
        const V sum = x[r][v] + x[r | bit][v];
        x[r | bit][v] = x[r][v] - x[r | bit][v];
        x[r][v] = sum;
      }
  for (int r = 0; r < R; ++r) {
    deal<T, W>(x[r][0], x[r][1]);
    const V odd = scale * x[r][1];
    if (r == 0) put<false, T, W>(bands[0] + to, scale * x[0][0] + odd);  // what is read again
    else put<past, T, W>(bands[2 * r] + to, scale * x[r][0] + odd);
    put<past, T, W>(bands[2 * r + 1] + to, scale * x[r][0] - odd);
  }
}

template <class T, int W, int A, bool past>
void haar_down(const T* const* rows, int64_t step, int64_t count, int64_t pairs, T* const* bands,
               int64_t band_step, T scale) {
  if constexpr (past)
    if (pairs % W || !aligned<T, W>(bands, 1, 1 << A, band_step))
      return haar_down<T, W, A, false>(rows, step, count, pairs, bands, band_step, scale);
  if constexpr (W > 1 && !past)
    if (pairs < W)
      return haar_down<T, W / 2, A, false>(rows, step, count, pairs, bands, band_step, scale);
  const T* x[1 << (A - 1)];
  T* y[1 << A];
  for (int r = 0; r < 1 << (A - 1); ++r) x[r] = rows[r];
  for (int b = 0; b < 1 << A; ++b) y[b] = bands[b];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = i * step, to = i * band_step;
    int64_t j = 0;
    for (; j + W <= pairs; j += W)
      haar_down_block<T, W, A, past>(x, from + 2 * j, y, to + j, scale);
    if (j < pairs) j = pairs - W, haar_down_block<T, W, A, past>(x, from + 2 * j, y, to + j, scale);
  }
  if constexpr (past) written();
}

template <class T, int W, int A, bool past>
ALWAYS_INLINE void haar_up_block(const T* const* bands, int64_t from, T* const* rows, int64_t to,
                                 T scale) {
  using V = typename Lanes<T, W>::Vector;
  constexpr int R = 1 << (A - 1);
  V x[R][2];
  for (int r = 0; r < R; ++r) {
    const V low = load<T, W>(bands[2 * r] + from);
    const V high = scale * load<T, W>(bands[2 * r + 1] + from);
    x[r][0] = scale * low + high, x[r][1] = scale * low - high;
    riffle<T, W>(x[r][0], x[r][1]);
  }
  for (int bit = 1; bit < R; bit *= 2)
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < 2 && !(r & bit); ++v) {
        const V sum = x[r][v] + x[r | bit][v];
        x[r | bit][v] = x[r][v] - x[r | bit][v];
        x[r][v] = sum;
      }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < 2; ++v) put<past, T, W>(rows[r] + to + v * W, x[r][v]);
}

template <class T, int W, int A, bool past>
void haar_up(const T* const* bands, int64_t band_step, int64_t count, int64_t pairs,
             T* const* rows, int64_t step, T scale) {
  if constexpr (past)
    if (pairs % W || !aligned<T, W>(rows, 0, 1 << (A - 1), step))
      return haar_up<T, W, A, false>(bands, band_step, count, pairs, rows, step, scale);
  if constexpr (W > 1 && !past)
    if (pairs < W)
      return haar_up<T, W / 2, A, false>(bands, band_step, count, pairs, rows, step, scale);
  const T* y[1 << A];
  T* x[1 << (A - 1)];
  for (int b = 0; b < 1 << A; ++b) y[b] = bands[b];
  for (int r = 0; r < 1 << (A - 1); ++r) x[r] = rows[r];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = i * band_step, to = i * step;
    int64_t j = 0;
    for (; j + W <= pairs; j += W)
      haar_up_block<T, W, A, past>(y, from + j, x, to + 2 * j, scale);
    if (j < pairs) j = pairs - W, haar_up_block<T, W, A, past>(y, from + j, x, to + 2 * j, scale);
  }
  if constexpr (past) written();
}
