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

// A band, which is zero outside.
template <class T>
T* padded_strips(const Axis& axis, Arena& arena) {
  constexpr int64_t pad = 2 * kLiftReach;
  T* band = arena.take<T>(axis.length + 2 * pad) + pad;
  std::fill_n(band - pad, pad, T(0));
  std::fill_n(band + axis.length, pad, T(0));
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

// Both ends of the bands, those of the first and of the second samples, from extended strips.
template <class T>
void ends_down(const Dim<T>& dim, const Lifting<T>& how, const T* e, T* first, T* second) {
  const Lift<T>& lift = dim.lift;
  const T* pairs = e + 2 * lift.steps.reach;
  const auto& line = loops<T>().lift[how.shape].line_down;
  line(how, pairs, nullptr, first, second, lift.first, lift.begin);
  line(how, pairs, nullptr, first, second, lift.end, lift.last);
}

// Both ends of the signal, from the strips of its bands, through those of e; the rest is there.
template <class T>
void ends_up(const Dim<T>& dim, const Lifting<T>& how, const T* first, const T* second, T* e, T* x) {
  const Lift<T>& lift = dim.lift;
  if (lift.left == 0 && lift.right == dim.bands) return;  // there are no ends
  const int64_t before = dim.axis->before, past = before + dim.size, offset = 2 * lift.steps.reach;
  const int64_t left = std::max(before, offset + 2 * lift.begin);
  const int64_t right = std::max(before, offset + 2 * lift.end);
  const auto& line = loops<T>().lift[how.shape].line_up;
  line(how, first, second, e + offset, nullptr, lift.first, lift.begin);
  line(how, first, second, e + offset, nullptr, lift.end, lift.last);
  std::copy(e + before, e + left, x);
  std::copy(e + right, e + past, x + right - before);
  for (const auto& o : lift.outside) x[o.from - before] += o.weight * e[o.to];
}

}  // namespace rightfast
