// The ends of a line that is lifted, with what lies past them: scratch memory for the whole line, of
// which only the two ends ("strips") are written.
#pragma once
#include <algorithm>

#include "level.h"

namespace rightfast {

template <class T>
T* extended_strips(const Axis& axis, Arena& arena) {
  return arena.take<T>(axis.extended());
}

// A band, which is zero outside: two coefficients on either side.
template <class T>
T* padded_strips(const Axis& axis, Arena& arena) {
  T* band = arena.take<T>(axis.length + 4) + 2;
  std::fill_n(band - 2, 2, T(0));
  std::fill_n(band + axis.length, 2, T(0));
  return band;
}

// What lies past the ends, from the strips.
template <class T>
void extend(const Dim<T>& dim, T* e) {
  const Axis& axis = *dim.axis;
  std::fill_n(e, axis.before, T(0));
  std::fill(e + axis.before + axis.n, e + axis.extended(), T(0));
  for (const auto& o : dim.lift.outside) e[o.to] += o.weight * e[o.from];
}

// Both ends of the bands, from extended strips.
template <class T>
void ends_down(const Dim<T>& dim, const Lifting<T>& how, const T* e, T* low, T* high) {
  const Lift<T>& lift = dim.lift;
  loops<T>().lift_down(how, e + 2, nullptr, low, high, lift.first, lift.begin);
  loops<T>().lift_down(how, e + 2, nullptr, low, high, lift.end, lift.last);
}

// Both ends of the signal, from the strips of its bands, through those of e; the rest is there.
template <class T>
void ends_up(const Dim<T>& dim, const Lifting<T>& how, const T* low, const T* high, T* e, T* x) {
  const Lift<T>& lift = dim.lift;
  if (lift.left == 0 && lift.right == dim.bands) return;  // there are no ends
  const int64_t before = dim.axis->before, past = before + dim.size;
  const int64_t left = std::max(before, 2 * lift.begin + 2);
  const int64_t right = std::max(before, 2 * lift.end + 2);
  loops<T>().lift_up(how, low, high, e + 2, nullptr, lift.first, lift.begin);
  loops<T>().lift_up(how, low, high, e + 2, nullptr, lift.end, lift.last);
  std::copy(e + before, e + left, x);
  std::copy(e + right, e + past, x + right - before);
  for (const auto& o : lift.outside) x[o.from - before] += o.weight * e[o.to];
}

// The pair of e[j]; none is before the one of e[0] and e[1].
inline int64_t pair_of(int64_t j) { return j < 2 ? -1 : j / 2 - 1; }

}  // namespace rightfast
