// One axis of one level, as tables: how its ends continue, and its filters as weighted sums.
//
// A level along an axis of n samples, by two filters of F taps, is y[o] = sum_t taps[t] e[2o + t],
// o < L, where e is the signal with `before` samples in front and the rest behind; its adjoint
// puts taps[t] y[o] onto e[2o + t] and folds the ends of e back. Both are one sparse matrix, once
// by rows and once by columns. Borders are in the tables, so that the loops know of no mode.
#pragma once
#include <cstdint>
#include <vector>

#include "loops.h"

namespace rightfast {

enum Mode { zero, symmetric, constant, smooth, periodic, periodization, reflect, antisymmetric,
            antireflect };

// e[to] += weight * x[from], for e[to] outside of the signal; the fold is the same backwards.
struct Fill {
  int64_t to, from;
  double weight;
};

// Sums of sources into two outputs at once, see Rows. Sources that only one output needs come
// apart, so that a tap of 0 is never multiplied (0 * inf is not 0) and costs nothing.
struct Sum {
  int64_t first;
  int only0, only1, both;
  int count() const { return only0 + only1 + both; }
};

template <class T>
struct Sums {
  std::vector<Sum> sums;
  std::vector<int64_t> source;
  std::vector<T> weight0, weight1;
  int most = 0;  // sources in one sum
  Rows<T> at(int64_t i, const T* const* rows) const {
    const Sum& s = sums[i];
    return {rows, &weight0[s.first], &weight1[s.first], s.only0, s.only1, s.both};
  }
};

struct Axis {
  int64_t n, length, before;  // samples, coefficients in each band, samples of e before the first
  Mode mode;
  std::vector<double> lo, hi;  // in the order of e
  int64_t taps() const { return static_cast<int64_t>(lo.size()); }
  int64_t phase() const { return length + taps() / 2 - 1; }  // even, or odd, samples of e
  int64_t extended() const { return 2 * phase(); }
};

std::vector<Fill> fills(const Axis& axis);

// Along a contiguous line, the same sum everywhere. Down: sources are the F samples from e[2o];
// outputs are the low and the high band. Up: sources are band samples q, q-1, ... of the low,
// then of the high band; outputs are e[2q] and e[2q + 1].
template <class T> Sums<T> line_down(const Axis& axis);
template <class T> Sums<T> line_up(const Axis& axis);

// Across lines, one sum for each output, borders included. Down: for each o, from samples to both
// bands. Up: for each q from `before / 2`, from bands (sample k of the low band is source 2k, of
// the high one 2k + 1) to samples 2q - before and 2q + 1 - before.
template <class T> Sums<T> rows_down(const Axis& axis);
template <class T> Sums<T> rows_up(const Axis& axis);

}  // namespace rightfast
