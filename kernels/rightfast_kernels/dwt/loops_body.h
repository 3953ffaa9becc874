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

// N vectors of both outputs: 2 N accumulators, each row read once.
template <class T, int W, int N>
inline __attribute__((always_inline)) void block(const T* const* rows, const T* weight0,
                                                 const T* weight1, int only0, int both, int only1,
                                                 T* out0, T* out1, int64_t i) {
  using V = typename Lanes<T, W>::Vector;
  using U = typename Lanes<T, W>::Unaligned;
  V a[N] = {}, b[N] = {};
  int s = 0;
  for (; s < only0; ++s)
    for (int v = 0; v < N; ++v) a[v] += weight0[s] * (V) * (const U*)(rows[s] + i + v * W);
  for (; s < only0 + both; ++s) {
    const T w0 = weight0[s], w1 = weight1[s];
    for (int v = 0; v < N; ++v) {
      V x = *(const U*)(rows[s] + i + v * W);
      a[v] += w0 * x;
      b[v] += w1 * x;
    }
  }
  for (; s < only0 + both + only1; ++s)
    for (int v = 0; v < N; ++v) b[v] += weight1[s] * (V) * (const U*)(rows[s] + i + v * W);
  for (int v = 0; v < N; ++v) {
    *(U*)(out0 + i + v * W) = a[v];
    *(U*)(out1 + i + v * W) = b[v];
  }
}

template <class T, int W>
void sum(const T* const* rows, const T* weight0, const T* weight1, int only0, int both, int only1,
         T* out0, T* out1, int64_t width) {
  int64_t i = 0;
  if constexpr (W > 1)
    if (width < W)
      return sum<T, W / 2>(rows, weight0, weight1, only0, both, only1, out0, out1, width);
  for (; i + 4 * W <= width; i += 4 * W)
    block<T, W, 4>(rows, weight0, weight1, only0, both, only1, out0, out1, i);
  for (; i + W <= width; i += W)
    block<T, W, 1>(rows, weight0, weight1, only0, both, only1, out0, out1, i);
  if (i < width)  // the last vector again, shifted: the outputs are no inputs
    block<T, W, 1>(rows, weight0, weight1, only0, both, only1, out0, out1, width - W);
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
