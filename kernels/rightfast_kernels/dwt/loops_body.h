// The loops for one instruction set: included by one file for each, after it has set
// RIGHTFAST_SET (a namespace) and RIGHTFAST_BYTES (of a vector), and the compiler's target.
//
// Vectors are the compiler's own (GCC and clang), so that the accumulators stay in registers.
// Nothing of the standard library is used here: an inline function of it, compiled for AVX-512,
// might be the copy that the linker keeps for all.

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
inline __attribute__((always_inline)) V once(V x) {
#ifdef __x86_64__
  if constexpr (sizeof(V) >= 16) asm("" : "+x"(x));
#endif
  return x;
}

// N vectors of both outputs: 2 N accumulators, each row read once.
template <class T, int W, int N>
inline __attribute__((always_inline)) void block(const Rows<T>& r, T* out0, T* out1, int64_t i) {
  using V = typename Lanes<T, W>::Vector;
  using U = typename Lanes<T, W>::Unaligned;
  V a[N] = {}, b[N] = {};
  int s = 0;
  for (; s < r.only0; ++s)
    for (int v = 0; v < N; ++v) a[v] += r.weight0[s] * (V) * (const U*)(r.rows[s] + i + v * W);
  for (; s < r.only0 + r.both; ++s) {
    const T w0 = r.weight0[s], w1 = r.weight1[s];
    const T* row = r.rows[s] + i;
    for (int v = 0; v < N; ++v) {
      const V x = once<V>(*(const U*)(row + v * W));
      a[v] += w0 * x;
      b[v] += w1 * x;
    }
  }
  for (; s < r.only0 + r.both + r.only1; ++s)
    for (int v = 0; v < N; ++v) b[v] += r.weight1[s] * (V) * (const U*)(r.rows[s] + i + v * W);
  for (int v = 0; v < N; ++v) {
    *(U*)(out0 + i + v * W) = a[v];
    *(U*)(out1 + i + v * W) = b[v];
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
void split(const T* __restrict x, int64_t n, T* __restrict even, T* __restrict odd) {
  for (int64_t i = 0; i < n / 2; ++i) {
    even[i] = x[2 * i];
    odd[i] = x[2 * i + 1];
  }
  if (n % 2) even[n / 2] = x[n - 1];
}

template <class T>
void weave(const T* __restrict even, const T* __restrict odd, int64_t n, T* __restrict x) {
  for (int64_t i = 0; i < n / 2; ++i) {
    x[2 * i] = even[i];
    x[2 * i + 1] = odd[i];
  }
  if (n % 2) x[n - 1] = even[n / 2];
}

}  // namespace

extern const Loops<float> floats;
extern const Loops<double> doubles;
const Loops<float> floats = {sum<float, RIGHTFAST_BYTES / 4>, split<float>, weave<float>};
const Loops<double> doubles = {sum<double, RIGHTFAST_BYTES / 8>, split<double>, weave<double>};

}  // namespace RIGHTFAST_SET
}  // namespace rightfast
