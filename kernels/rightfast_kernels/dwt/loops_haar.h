// Haar's loops: a part of loops_body.h.
//
// Across rows there are sums and differences only; the factor of all axes comes with the last one,
// which takes a product and two fused ones where the others take two additions.

template <class T, int W, int A>
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
    store<T, W>(bands[2 * r] + to, scale * x[r][0] + odd);
    store<T, W>(bands[2 * r + 1] + to, scale * x[r][0] - odd);
  }
}

template <class T, int W, int A>
void haar_down(const T* const* rows, int64_t step, int64_t count, int64_t pairs, T* const* bands,
               int64_t band_step, T scale) {
  if constexpr (W > 1)
    if (pairs < W) return haar_down<T, W / 2, A>(rows, step, count, pairs, bands, band_step, scale);
  const T* x[1 << (A - 1)];
  T* y[1 << A];
  for (int r = 0; r < 1 << (A - 1); ++r) x[r] = rows[r];
  for (int b = 0; b < 1 << A; ++b) y[b] = bands[b];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = i * step, to = i * band_step;
    int64_t j = 0;
    for (; j + W <= pairs; j += W) haar_down_block<T, W, A>(x, from + 2 * j, y, to + j, scale);
    if (j < pairs) j = pairs - W, haar_down_block<T, W, A>(x, from + 2 * j, y, to + j, scale);
  }
}

template <class T, int W, int A>
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
    for (int v = 0; v < 2; ++v) store<T, W>(rows[r] + to + v * W, x[r][v]);
}

template <class T, int W, int A>
void haar_up(const T* const* bands, int64_t band_step, int64_t count, int64_t pairs,
             T* const* rows, int64_t step, T scale) {
  if constexpr (W > 1)
    if (pairs < W) return haar_up<T, W / 2, A>(bands, band_step, count, pairs, rows, step, scale);
  const T* y[1 << A];
  T* x[1 << (A - 1)];
  for (int b = 0; b < 1 << A; ++b) y[b] = bands[b];
  for (int r = 0; r < 1 << (A - 1); ++r) x[r] = rows[r];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = i * band_step, to = i * step;
    int64_t j = 0;
    for (; j + W <= pairs; j += W) haar_up_block<T, W, A>(y, from + j, x, to + 2 * j, scale);
    if (j < pairs) j = pairs - W, haar_up_block<T, W, A>(y, from + j, x, to + 2 * j, scale);
  }
}
