// Marking what is lifted, and the 5/3 pair along one line.
//
// The loops read pairs from where they lie. The ends, with what lies past them, are put together in
// scratch memory first: "strips", of which the middle stays unwritten.
#include <algorithm>
#include <cmath>

#include "strips.h"

namespace rightfast {
namespace {

bool near(double a, double b) { return std::abs(a - b) <= 2e-15 * std::abs(b); }

// Whether 2 reach + 1 taps around `centre` are symmetric and not zero, and the others are.
bool symmetric_about(const std::vector<double>& taps, int64_t centre, int64_t reach) {
  for (int64_t t = 0; t < static_cast<int64_t>(taps.size()); ++t) {
    const bool inside = std::abs(t - centre) <= reach;
    if ((taps[t] != 0) != inside || (inside && taps[t] != taps[2 * centre - t])) return false;
  }
  return true;
}

// Three taps are scale (step, 1, step), five are scale (a step, a, 1 + 2 a step, a, a step). Back,
// the factors come last as well, which changes the steps.
template <class T>
bool find_steps(const Axis& axis, bool down, Lift<T>& lift) {
  if (axis.taps() != 6) return false;
  Lifting<T>& how = lift.how;
  how.second_first = axis.hi[1] == 0;
  const auto& three = how.second_first ? axis.hi : axis.lo;
  const auto& five = how.second_first ? axis.lo : axis.hi;
  const int64_t c = how.second_first ? 3 : 2, d = 5 - c;
  if (!symmetric_about(three, c, 1) || !symmetric_about(five, d, 2)) return false;
  const double scale3 = three[c], scale5 = five[d] - 2 * five[d - 2];
  const double step = three[c - 1] / scale3, other = five[d - 1] / scale5;
  if (!near(std::abs(step), 0.5) || !near(std::abs(other), 0.25)) return false;
  if (!near(scale5 * other * step, five[d - 2])) return false;
  how.step0 = static_cast<T>(down ? step : other * scale5 / scale3);
  how.step1 = static_cast<T>(down ? other : step * scale3 / scale5);
  lift.scale[how.second_first ? 0 : 1] = scale5, lift.scale[how.second_first ? 1 : 0] = scale3;
  how.scale0 = static_cast<T>(lift.scale[0]), how.scale1 = static_cast<T>(lift.scale[1]);
  return true;
}

template <class T>
bool mark(Dim<T>& dim, bool down) {
  const Axis& axis = *dim.axis;
  Lift<T>& lift = dim.lift;
  if (!find_steps(axis, down, lift)) return false;
  for (const Fill& f : fills(axis))
    lift.outside.push_back({f.to, f.from + axis.before, static_cast<T>(f.weight)});
  return true;
}

template <class T>
void find_inside_down(const Axis& axis, Lift<T>& lift) {
  const int64_t before = axis.before, past = before + axis.n;
  lift.first = 0, lift.last = axis.length;
  lift.begin = (before + 1) / 2, lift.end = std::min((past - 4) / 2, axis.length);
  lift.left = 2 * lift.begin + 4 - before, lift.right = 2 * lift.end - before;
  for (const auto& o : lift.outside) {
    const int64_t from = o.from - before;
    from < axis.n / 2 ? lift.left = std::max(lift.left, from + 1)
                      : lift.right = std::min(lift.right, from);
  }
}

// Without a fold, most signals have no ends.
template <class T>
void find_inside_up(const Axis& axis, Lift<T>& lift) {
  const int64_t before = axis.before, past = before + axis.n;
  const bool fold = !lift.outside.empty();
  lift.first = fold ? -1 : pair_of(before);
  lift.last = fold ? axis.length + 1 : pair_of(past - 1) + 1;
  lift.begin = std::max<int64_t>(1, (before - 1) / 2);
  lift.end = std::min((past - 2) / 2, axis.length - 1);
  lift.left = lift.first < lift.begin ? lift.begin + 1 : 0;
  lift.right = lift.end < lift.last ? lift.end - 1 : axis.length;
}

// A pair is inside if both neighbours are, too. Where few are, all of the line is an end.
template <class T>
void find_inside(const Axis& axis, bool down, Lift<T>& lift) {
  down ? find_inside_down(axis, lift) : find_inside_up(axis, lift);
  if (lift.end - lift.begin >= kLiftBlock && lift.left <= lift.right) return;
  lift.begin = lift.end = lift.first;
  lift.left = lift.right = 0;
}

constexpr int64_t kShort = 64;  // samples: the sums take a shorter line

}  // namespace

template <class T>
void mark_lifting(std::vector<Dim<T>>& dims, bool down) {
  Dim<T>& line = dims.back();
  if (!line.axis || line.inner != 1 || line.size < kShort || !mark(line, down)) return;
  find_inside(*line.axis, down, line.lift);
  line.lift.line = true;
  if (dims.size() < 2) return;
  Dim<T>& rows = dims[dims.size() - 2];
  rows.lift.plane = rows.axis && mark(rows, down) &&
                    rows.lift.how.second_first == line.lift.how.second_first;
}

template <class T>
void lift_line_down(const Dim<T>& dim, const T* x, T* low, T* high, Arena& arena, Spread spread) {
  const Lift<T>& lift = dim.lift;
  const Axis& axis = *dim.axis;
  Arena::Scope scope(arena);
  in_pieces(lift.end - lift.begin, arena, spread, [&](int64_t first, int64_t count, Arena&) {
    const int64_t i = lift.begin + first;
    loops<T>().lift_down(lift.how, x + 2 - axis.before, nullptr, low, high, i, i + count);
  });
  T* e = extended_strips<T>(axis, arena);
  std::copy(x, x + lift.left, e + axis.before);
  std::copy(x + lift.right, x + axis.n, e + axis.before + lift.right);
  extend(dim, e);
  ends_down(dim, lift.how, e, low, high);
}

template <class T>
void lift_line_up(const Dim<T>& dim, const T* low, const T* high, T* x, Arena& arena,
                  Spread spread) {
  const Lift<T>& lift = dim.lift;
  const Axis& axis = *dim.axis;
  Arena::Scope scope(arena);
  in_pieces(lift.end - lift.begin, arena, spread, [&](int64_t first, int64_t count, Arena&) {
    const int64_t i = lift.begin + first;
    loops<T>().lift_up(lift.how, low, high, x + 2 - axis.before, nullptr, i, i + count);
  });
  T* runs[2];
  for (int band = 0; band < 2; ++band) {
    const T* from = band ? high : low;
    runs[band] = padded_strips<T>(axis, arena);
    std::copy(from, from + lift.left, runs[band]);
    std::copy(from + lift.right, from + axis.length, runs[band] + lift.right);
  }
  ends_up(dim, lift.how, runs[0], runs[1], extended_strips<T>(axis, arena), x);
}

#define RIGHTFAST_LIFTING(T)                                                             \
  template void mark_lifting(std::vector<Dim<T>>&, bool);                                \
  template void lift_line_down(const Dim<T>&, const T*, T*, T*, Arena&, Spread);         \
  template void lift_line_up(const Dim<T>&, const T*, const T*, T*, Arena&, Spread);
RIGHTFAST_LIFTING(float)
RIGHTFAST_LIFTING(double)

}  // namespace rightfast
