// The loops for one instruction set: included by one file for each, after it has set
// RIGHTFAST_SET (a namespace) and RIGHTFAST_BYTES (of a vector), and the compiler's target.
//
// Vectors are the compiler's own (GCC and clang), so that the accumulators stay in registers. Of
// the standard library only types are used here: an inline function, compiled for AVX-512, might
// be the copy that the linker keeps for all.
#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace rightfast {
namespace RIGHTFAST_SET {
namespace {

template <class T, int W>
struct Lanes {
  typedef T Vector __attribute__((vector_size(W * sizeof(T))));
  typedef T Unaligned __attribute__((vector_size(W * sizeof(T)), aligned(alignof(T)), may_alias));
};

// Keeps a value in its register: read once, used twice, it would be folded into both uses as two
// reads, and reads are what limits the loop.
template <class V>
ALWAYS_INLINE V once(V x) {
#ifdef __x86_64__
  if constexpr (sizeof(V) >= 16) asm("" : "+x"(x));
#endif
  return x;
}

template <class T, int W>
ALWAYS_INLINE typename Lanes<T, W>::Vector load(const T* from) {
  return *(const typename Lanes<T, W>::Unaligned*)from;
}

template <class T, int W, class V>
ALWAYS_INLINE void store(T* to, V x) {
  *(typename Lanes<T, W>::Unaligned*)to = x;
}

// a and b: N vectors of both outputs from place i on. Each row is read once.
template <class T, int W, int N>
ALWAYS_INLINE void accumulate(const Rows<T>& r, int64_t i,
                                                      typename Lanes<T, W>::Vector* a,
                                                      typename Lanes<T, W>::Vector* b) {
  using V = typename Lanes<T, W>::Vector;
  for (int v = 0; v < N; ++v) a[v] = b[v] = V{};
  int s = 0;
  for (; s < r.only0; ++s)
    for (int v = 0; v < N; ++v) a[v] += r.weight0[s] * load<T, W>(r.rows[s] + i + v * W);
  for (; s < r.only0 + r.only1; ++s)
    for (int v = 0; v < N; ++v) b[v] += r.weight1[s] * load<T, W>(r.rows[s] + i + v * W);
  for (; s < r.only0 + r.only1 + r.both; ++s) {
    const T w0 = r.weight0[s], w1 = r.weight1[s];
    const T* row = r.rows[s] + i;
    for (int v = 0; v < N; ++v) {
      const V x = once(load<T, W>(row + v * W));
      a[v] += w0 * x;
      b[v] += w1 * x;
    }
  }
}

// Asks for the line that will be written soon. A store across two lines waits for both of them, one
// such store after the other: without this, rows of odd length take twice as long.
template <bool back = false, class T>
ALWAYS_INLINE void fetch(T* to) {
  constexpr int ahead = 256 / sizeof(T);
  __builtin_prefetch(to + (back ? -ahead : ahead), 1);
}

// Lanes of two vectors of W, in an order: even ones, odd ones, and back. A vector of 32 bytes has
// two halves, and moving between them is slow: there, halves are exchanged first (or last), by one
// cheap instruction each, and the rest stays within its half of L lanes.
enum Order : int { evens, odds, fronts, backs, low_halves, high_halves, middle, slid };  // slid + k: k on

constexpr int lane(Order order, int W, int L, int i) {
  const int half = i / L * L, k = i % L;
  if (order == evens || order == odds)
    return (k < L / 2 ? half + 2 * k : W + half + 2 * k - L) + (order == odds);
  if (order == fronts || order == backs)
    return (k % 2 ? W : 0) + half + k / 2 + (order == backs ? L / 2 : 0);
  if (order >= slid) return (k + order - slid < L ? 0 : W - L) + half + k + order - slid;
  if (order == middle) return W / 2 + i;
  return (i < W / 2 ? i : W / 2 + i) + (order == high_halves ? W / 2 : 0);
}

template <Order order, class T, int W, class V, int... I>
ALWAYS_INLINE V pick(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int L = W * sizeof(T) == 32 ? W / 2 : W;
#ifdef __clang__
  return __builtin_shufflevector(a, b, lane(order, W, L, I)...);
#else
  using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Index Mask __attribute__((vector_size(sizeof(V))));
  return __builtin_shuffle(a, b, Mask{lane(order, W, L, I)...});
#endif
}

template <Order first, Order second, class T, int W, class V>
ALWAYS_INLINE void exchange(V& a, V& b) {
  constexpr auto all = std::make_integer_sequence<int, W>();
  const V x = pick<first, T, W>(a, b, all);
  b = pick<second, T, W>(a, b, all);
  a = x;
}

// a, b: 2 W numbers in a row -> the even ones, the odd ones.
template <class T, int W, class V>
ALWAYS_INLINE void deal(V& a, V& b) {
  if constexpr (W == 1) return;
  if constexpr (W * sizeof(T) == 32) exchange<low_halves, high_halves, T, W>(a, b);
  exchange<evens, odds, T, W>(a, b);
}

template <class T, int W, class V>
ALWAYS_INLINE void riffle(V& a, V& b) {
  if constexpr (W == 1) return;
  exchange<fronts, backs, T, W>(a, b);
  if constexpr (W * sizeof(T) == 32) exchange<low_halves, high_halves, T, W>(a, b);
}

template <class T, int W, int N>
ALWAYS_INLINE void block(const Rows<T>& rows, T* out0, T* out1, int64_t i) {
  typename Lanes<T, W>::Vector a[N], b[N];
  accumulate<T, W, N>(rows, i, a, b);
  for (int v = 0; v < N; ++v) {
    fetch(out0 + i + v * W), fetch(out1 + i + v * W);
    store<T, W>(out0 + i + v * W, a[v]);
    store<T, W>(out1 + i + v * W, b[v]);
  }
}

template <class T, int W>
void sum(const Rows<T>& rows, T* out0, T* out1, int64_t begin, int64_t end) {
  if constexpr (W > 1)
    if (end - begin < W) return sum<T, W / 2>(rows, out0, out1, begin, end);
  int64_t i = begin;
  for (; i + 4 * W <= end; i += 4 * W) block<T, W, 4>(rows, out0, out1, i);
  for (; i + W <= end; i += W) block<T, W, 1>(rows, out0, out1, i);
  if (i < end) block<T, W, 1>(rows, out0, out1, end - W);  // again in part: no output is an input
}

template <class T>
void one(const Rows<T>& rows, int64_t i, T* out0, T* out1) {
  typename Lanes<T, 1>::Vector a[1], b[1];
  accumulate<T, 1, 1>(rows, i, a, b);
  *out0 = a[0][0], *out1 = b[0][0];
}

template <class T, int W, int N>
ALWAYS_INLINE void split_block(const Rows<T>& rows, T* const* out, int64_t i) {
  typename Lanes<T, W>::Vector a[N], b[N];
  accumulate<T, W, N>(rows, i, a, b);
  for (int v = 0; v < N; v += 2) {
    deal<T, W>(a[v], a[v + 1]);
    deal<T, W>(b[v], b[v + 1]);
    for (int p = 0; p < 2; ++p) {
      store<T, W>(out[p] + i / 2 + v / 2 * W, a[v + p]);
      store<T, W>(out[2 + p] + i / 2 + v / 2 * W, b[v + p]);
    }
  }
}

template <class T, int W>
void sum_split(const Rows<T>& rows, T* const* out, int64_t n) {
  const int64_t even = n / 2 * 2;
  if constexpr (W > 1)
    if (even < 2 * W) return sum_split<T, W / 2>(rows, out, n);
  int64_t i = 0;
  for (; i + 4 * W <= even; i += 4 * W) split_block<T, W, 4>(rows, out, i);
  for (; i + 2 * W <= even; i += 2 * W) split_block<T, W, 2>(rows, out, i);
  if (i < even) split_block<T, W, 2>(rows, out, even - 2 * W);
  if (n % 2) one(rows, n - 1, out[0] + n / 2, out[2] + n / 2);
}

template <class T, int W, int N>
ALWAYS_INLINE void weave_block(const Rows<T>& rows, T* x, int64_t i) {
  typename Lanes<T, W>::Vector a[N], b[N];
  accumulate<T, W, N>(rows, i, a, b);
  for (int v = 0; v < N; ++v) {
    riffle<T, W>(a[v], b[v]);
    fetch(x + 2 * (i + v * W)), fetch(x + 2 * (i + v * W) + W);
    store<T, W>(x + 2 * (i + v * W), a[v]);
    store<T, W>(x + 2 * (i + v * W) + W, b[v]);
  }
}

template <class T, int W>
void sum_weave(const Rows<T>& rows, T* x, int64_t begin, int64_t end) {
  const int64_t last = end / 2;
  int64_t i = begin / 2;
  if constexpr (W > 1)
    if (last - i < W) return sum_weave<T, W / 2>(rows, x, begin, end);
  for (; i + 4 * W <= last; i += 4 * W) weave_block<T, W, 4>(rows, x, i);
  for (; i + W <= last; i += W) weave_block<T, W, 1>(rows, x, i);
  if (i < last) weave_block<T, W, 1>(rows, x, last - W);
  T unused;
  if (end % 2) one(rows, last, x + 2 * last, &unused);
}

template <class T, int W>
void split(const T* x, int64_t n, T* even, T* odd) {
  int64_t i = 0;
  for (; i + W <= n / 2; i += W) {
    auto a = load<T, W>(x + 2 * i), b = load<T, W>(x + 2 * i + W);
    deal<T, W>(a, b);
    store<T, W>(even + i, a);
    store<T, W>(odd + i, b);
  }
  for (; i < n / 2; ++i) even[i] = x[2 * i], odd[i] = x[2 * i + 1];
  if (n % 2) even[n / 2] = x[n - 1];
}

template <class T, int W>
void weave(const T* even, const T* odd, int64_t n, T* x) {
  int64_t i = 0;
  for (; i + W <= n / 2; i += W) {
    auto a = load<T, W>(even + i), b = load<T, W>(odd + i);
    riffle<T, W>(a, b);
    store<T, W>(x + 2 * i, a);
    store<T, W>(x + 2 * i + W, b);
  }
  for (; i < n / 2; ++i) x[2 * i] = even[i], x[2 * i + 1] = odd[i];
  if (n % 2) x[n - 1] = even[n / 2];
}

#include "loops_haar.h"
#include "loops_lifting.h"

template <class T, int W>
constexpr Loops<T> table() {
  return {sum<T, W>,
          sum_split<T, W>,
          sum_weave<T, W>,
          split<T, W>,
          weave<T, W>,
          {{haar_down<T, W, 1, false>, haar_down<T, W, 2, false>, haar_down<T, W, 3, false>},
           {haar_down<T, W, 1, true>, haar_down<T, W, 2, true>, haar_down<T, W, 3, true>}},
          {{haar_up<T, W, 1, false>, haar_up<T, W, 2, false>, haar_up<T, W, 3, false>},
           {haar_up<T, W, 1, true>, haar_up<T, W, 2, true>, haar_up<T, W, 3, true>}},
          {lift_loops<T, W, 1, false, false>(), lift_loops<T, W, 2, false, false>(),
           lift_loops<T, W, 1, false, true>(), lift_loops<T, W, 2, false, true>(),
           lift_loops<T, W, 1, true, false>(), lift_loops<T, W, 2, true, false>()}};
}

}  // namespace

extern const Loops<float> floats;
extern const Loops<double> doubles;
const Loops<float> floats = table<float, RIGHTFAST_BYTES / 4>();
const Loops<double> doubles = table<double, RIGHTFAST_BYTES / 8>();

}  // namespace RIGHTFAST_SET
}  // namespace rightfast
