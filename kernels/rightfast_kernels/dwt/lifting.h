// The 5/3 pair (bior2.2, rbio2.2) by lifting: what a plan knows of it, for one axis.
//
// Pair i of the extended samples e is (e[2i + 2], e[2i + 3]); lifted, it is coefficient i of the low
// and of the high band. Back, bands are zero outside and pairs -1 to length are all of e.
#pragma once
#include <cstdint>
#include <vector>

#include "loops.h"

namespace rightfast {

template <class T>
struct Lift {
  bool line = false, plane = false;  // along a line of this axis; across this axis and along the next
  Lifting<T> how;
  double scale[2];  // its factors, of which products come
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
