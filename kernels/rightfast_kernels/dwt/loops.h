// The loops that everything is made of, as a table for each instruction set.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

namespace rightfast {

constexpr int kHaarAxes = 3;   // so many in one pass
constexpr int kLiftBlock = 16;  // pairs, at least those of a vector

// Rows to sum with weights into two outputs: the first `only0` rows into the first output alone,
// the next `only1` into the second alone, the last `both` into both.
template <class T>
struct Rows {
  const T* const* rows;
  const T *weight0, *weight1;
  int only0, only1, both;
};

// Two steps of lifting and two factors, see loops_lifting.h.
template <class T>
struct Lifting {
  bool second_first;  // the second of each pair is lifted first
  T step0, step1, scale0, scale1;
};

// Three rows in a row, of which the middle one is lifted into `fresh`; `old`: the one lifted before.
template <class T>
struct LiftedRows {
  const T *outer0, *centre, *outer1, *old;
  T* fresh;
};

template <class T>
struct Loops {
  // out0[i] = sum weight0[s] rows[s][i], out1 alike, for begin <= i < end.
  void (*sum)(const Rows<T>& rows, T* out0, T* out1, int64_t begin, int64_t end);
  // The same for i < n, each output as its even and its odd samples: out = {even of the first,
  // odd of the first, even of the second, odd of the second}.
  void (*sum_split)(const Rows<T>& rows, T* const* out, int64_t n);
  // The same with both outputs in turn, x[2i] and x[2i + 1], for begin <= i < end.
  void (*sum_weave)(const Rows<T>& rows, T* x, int64_t begin, int64_t end);
  void (*split)(const T* x, int64_t n, T* even, T* odd);        // even and odd samples of x
  void (*weave)(const T* even, const T* odd, int64_t n, T* x);  // the inverse
  // Haar over 1, 2 or 3 axes: the sums and differences of 2^(axes-1) rows of pairs, times `scale`,
  // to 2^axes bands, and back; `count` times, by `step` on in each row and `band_step` in each band.
  // The second ones write past the caches, but for the low band.
  void (*haar_down[2][kHaarAxes])(const T* const* rows, int64_t step, int64_t count, int64_t pairs,
                                  T* const* bands, int64_t band_step, T scale);
  void (*haar_up[2][kHaarAxes])(const T* const* bands, int64_t band_step, int64_t count, int64_t pairs,
                                T* const* rows, int64_t step, T scale);
  // Pairs begin <= i < end along a line, lifted: from pairs in turn to two runs, and from two runs
  // to pairs in turn. The pairs before and behind are read, too.
  using Lift = void (*)(const Lifting<T>& how, const T* first, const T* second, T* to_first,
                        T* to_second, int64_t begin, int64_t end);
  Lift lift_down, lift_up;
  // Rows, lifted across, for begin <= i < end; the other row goes to `to`.
  void (*lift_rows)(const Lifting<T>& how, const LiftedRows<T>& rows, T* to, int64_t begin,
                    int64_t end);
  // Both in one loop, for kLiftBlock pairs or more: `along`, the two rows that come out, to
  // four bands; and back, from the rows of both runs to two rows (out[0], out[2]).
  using LiftPlane = void (*)(const Lifting<T>& how, const Lifting<T>* along,
                             const LiftedRows<T>* rows, T* const* out, int64_t begin, int64_t end);
  LiftPlane lift_plane_down, lift_plane_up;
};

// The widest that this processor has, or the one that `choose` named.
template <class T> const Loops<T>& loops();

// "avx512", "avx2" or "baseline", or "" for the widest; returns the name of the one in use.
const char* choose(const char* name);

}  // namespace rightfast
