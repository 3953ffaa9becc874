// The loops that everything is made of, as a table for each instruction set.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

namespace rightfast {

constexpr int kHaarAxes = 3;   // so many in one pass
constexpr int kLiftBlock = 16;  // pairs, at least those of a vector
constexpr int kLiftReach = 2;   // pairs that a step of lifting reaches, at most
constexpr int kLiftShapes = 3 * kLiftReach;  // by reach, and by three kinds of steps

// Rows to sum with weights into two outputs: the first `only0` rows into the first output alone,
// the next `only1` into the second alone, the last `both` into both.
template <class T>
struct Rows {
  const T* const* rows;
  const T *weight0, *weight1;
  int only0, only1, both;
};

// Two steps of lifting with the factors, see loops_lifting.h.
template <class T>
struct Lifting {
  int shape;  // index of the loops
  T shorter, longer[kLiftReach + 1], scale_u, scale_v;
};

// The rows that one pair of rows comes from, see `across`; u' goes to `fresh`, too.
template <class T>
struct LiftedRows {
  const T *around[2 * kLiftReach + 1], *before, *behind, *centre, *own;
  T* fresh;
  LiftedRows moved(int64_t by) const {
    LiftedRows rows = *this;
    const auto move = [by](const T*& row) { row = row ? row + by : row; };
    for (const T*& row : rows.around) move(row);
    move(rows.before), move(rows.behind), move(rows.centre), move(rows.own);
    rows.fresh += by;
    return rows;
  }
};

// For one shape: reach and kind of the steps.
template <class T>
struct LiftLoops {
  // Pairs begin <= i < end along a line, lifted: down, from pairs in turn to two runs, and up, from
  // two runs to pairs in turn; `reach` pairs on either side are read, too.
  using Line = void (*)(const Lifting<T>& how, const T* first, const T* second, T* to_first,
                        T* to_second, int64_t begin, int64_t end);
  // Rows, lifted across, for begin <= i < end; v' goes to `to`.
  using Across = void (*)(const Lifting<T>& how, const LiftedRows<T>& rows, T* to, int64_t begin,
                          int64_t end);
  // Both in one loop, for kLiftBlock pairs or more: `along`, the two rows that come out, to
  // four bands; and back, from the rows of both runs to two rows (out[0], out[2]).
  using Plane = void (*)(const Lifting<T>& how, const Lifting<T>* along, const LiftedRows<T>* rows,
                         T* const* out, int64_t begin, int64_t end);
  Line line_down, line_up;
  Across across_down, across_up;
  Plane plane_down, plane_up;
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
  LiftLoops<T> lift[kLiftShapes];
};

// The widest that this processor has, or the one that `choose` named.
template <class T> const Loops<T>& loops();

// "avx512", "avx2" or "baseline", or "" for the widest; returns the name of the one in use.
const char* choose(const char* name);

}  // namespace rightfast
