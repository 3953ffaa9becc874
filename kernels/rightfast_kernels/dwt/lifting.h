// Biorthogonal pairs in two steps of lifting: what a plan knows of them, for one axis.
//
// The band of the shorter filter, u, is lifted first, and the other one, v, by it. Along a line, pair i
// is the two samples from e[2 reach + 2i] on, of the extended signal e, and coefficient i of both bands.
// Across rows, it is those from e[offset + 2i] on, and coefficient i of u and i + shift of v, so that u
// is the first one down, and the second one up. Back, bands are zero outside.
#pragma once
#include <cstdint>
#include <vector>

#include "loops.h"

namespace rightfast {

struct Axis;

// The steps of one direction, see loops_lifting.h.
struct LiftSteps {
  int reach;
  bool centred, back;
  int u, first;  // bands, 0 (low) or 1: u, and that of the first sample of a pair
  int shift;     // across rows: -1, 0 or 1
  double shorter, longer[kLiftReach + 1], scale_u, scale_v;
  int64_t offset() const { return 2 * reach + shift; }
  template <class T>
  Lifting<T> without_factors() const;
  template <class T>
  Lifting<T> with_factors(bool down, double more = 1) const;  // and `more` besides
};

// The pair of sample j, where pair 0 begins at `offset`.
inline int64_t pair_of(int64_t j, int64_t offset) { return (j - offset + 32) / 2 - 16; }

// Whether the filters of an axis are such a pair.
bool find_steps(const Axis& axis, bool down, LiftSteps& steps);

template <class T>
struct Lift {
  bool line = false, plane = false;  // along a line of this axis; across this axis and along the next
  LiftSteps steps;
  Lifting<T> how;       // along a line, or across
  Lifting<T> along[2];  // across: along the two rows that come out, in their order in memory
  int64_t first, last;  // pairs that are needed
  int64_t begin, end;   // those that the loops take from where they lie, and leave where they belong
  int64_t left, right;  // the rest is made of what is before `left`, or from `right` on
  struct Outside {
    int64_t to, from;  // samples of e
    T weight;
  };
  std::vector<Outside> outside;  // e[to] += weight e[from], in the order of `to`
};

}  // namespace rightfast
