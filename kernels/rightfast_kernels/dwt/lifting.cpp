// Marking what is lifted, and lifting along one line.
//
// The loops read pairs from where they lie. The ends, with what lies past them, are put together in
// scratch memory first (strips.h).
#include <algorithm>

#include "strips.h"

namespace rightfast {
namespace {

template <class T>
bool mark(Dim<T>& dim, bool down) {
  const Axis& axis = *dim.axis;
  Lift<T>& lift = dim.lift;
  if (!find_steps(axis, down, lift.steps)) return false;
  for (const Fill& f : fills(axis))
    lift.outside.push_back({f.to, f.from + axis.before, static_cast<T>(f.weight)});
  return true;
}

template <class T>
void find_inside_down(const Axis& axis, Lift<T>& lift) {
  const int64_t before = axis.before, past = before + axis.n, reads = 4 * lift.steps.reach;
  lift.first = 0, lift.last = axis.length;
  lift.begin = (before + 1) / 2, lift.end = std::min((past - reads) / 2, axis.length);
  lift.left = 2 * lift.begin + reads - before, lift.right = 2 * lift.end - before;
  for (const auto& o : lift.outside) {
    const int64_t from = o.from - before;
    from < axis.n / 2 ? lift.left = std::max(lift.left, from + 1)
                      : lift.right = std::min(lift.right, from);
  }
}

// Without a fold, most signals have no ends.
template <class T>
void find_inside_up(const Axis& axis, Lift<T>& lift) {
  const int64_t before = axis.before, past = before + axis.n, reach = lift.steps.reach;
  const bool fold = !lift.outside.empty();
  lift.first = pair_of(fold ? 0 : before, 2 * reach);
  lift.last = pair_of(fold ? axis.extended() - 1 : past - 1, 2 * reach) + 1;
  lift.begin = std::max(reach, pair_of(before + 1, 2 * reach));
  lift.end = std::min(pair_of(past, 2 * reach), axis.length - reach);
  lift.left = lift.first < lift.begin ? lift.begin + reach : 0;
  lift.right = lift.end < lift.last ? lift.end - reach : axis.length;
}

// A pair is inside if all that it is made of is, too. Where few are, all of the line is an end.
template <class T>
void find_inside(const Axis& axis, bool down, Lift<T>& lift) {
  down ? find_inside_down(axis, lift) : find_inside_up(axis, lift);
  if (lift.end - lift.begin >= kLiftBlock && lift.left <= lift.right) return;
  lift.begin = lift.end = lift.first;
  lift.left = lift.right = 0;
}

// What the sums take, as they are no slower (docs/benchmarks.md): shorter lines, in samples; and down,
// planes of a volume with shorter lines, and planes from the right to the left.
constexpr int64_t kShort = 64, kShortInVolume = 128;

}  // namespace

template <class T>
void mark_lifting(std::vector<Dim<T>>& dims, bool down) {
  Dim<T>& line = dims.back();
  if (!line.axis || line.inner != 1 || line.size < kShort || !mark(line, down)) return;
  find_inside(*line.axis, down, line.lift);
  line.lift.line = true;
  line.lift.how = line.lift.steps.template with_factors<T>(down);
  if (dims.size() < 2) return;
  Dim<T>& rows = dims[dims.size() - 2];
  if (!rows.axis || !mark(rows, down)) return;
  const LiftSteps& steps = rows.lift.steps;
  const bool slow = line.lift.steps.back && steps.reach > 1;
  if (down && (slow || (dims.size() > 2 && line.size < kShortInVolume))) return;
  rows.lift.how = steps.template without_factors<T>();
  rows.lift.plane = rows.lift.how.shape == line.lift.how.shape;
  rows.lift.along[!down] = line.lift.steps.template with_factors<T>(down, steps.scale_u);
  rows.lift.along[down] = line.lift.steps.template with_factors<T>(down, steps.scale_v);
}

template <class T>
void lift_line_down(const Dim<T>& dim, const T* x, T* low, T* high, Arena& arena, Spread spread) {
  const Lift<T>& lift = dim.lift;
  const Axis& axis = *dim.axis;
  T *first = lift.steps.first ? high : low, *second = lift.steps.first ? low : high;
  Arena::Scope scope(arena);
  in_pieces(lift.end - lift.begin, arena, spread, [&](int64_t at, int64_t count, Arena&) {
    const int64_t i = lift.begin + at;
    loops<T>().lift[lift.how.shape].line_down(lift.how, x + 2 * lift.steps.reach - axis.before, nullptr,
                                              first, second, i, i + count);
  });
  T* e = extended_strips<T>(axis, arena);
  std::copy(x, x + lift.left, e + axis.before);
  std::copy(x + lift.right, x + axis.n, e + axis.before + lift.right);
  extend(dim, e);
  ends_down(dim, lift.how, e, first, second);
}

template <class T>
void lift_line_up(const Dim<T>& dim, const T* low, const T* high, T* x, Arena& arena,
                  Spread spread) {
  const Lift<T>& lift = dim.lift;
  const Axis& axis = *dim.axis;
  const T *first = lift.steps.first ? high : low, *second = lift.steps.first ? low : high;
  Arena::Scope scope(arena);
  in_pieces(lift.end - lift.begin, arena, spread, [&](int64_t at, int64_t count, Arena&) {
    const int64_t i = lift.begin + at;
    loops<T>().lift[lift.how.shape].line_up(lift.how, first, second,
                                            x + 2 * lift.steps.reach - axis.before, nullptr, i, i + count);
  });
  const auto ends_of = [&](const T* band) {
    T* made = padded_strips<T>(axis, arena);
    std::copy(band, band + lift.left, made);
    std::copy(band + lift.right, band + axis.length, made + lift.right);
    return made;
  };
  ends_up(dim, lift.how, ends_of(first), ends_of(second), extended_strips<T>(axis, arena), x);
}

#define RIGHTFAST_LIFTING(T)                                                             \
  template void mark_lifting(std::vector<Dim<T>>&, bool);                                \
  template void lift_line_down(const Dim<T>&, const T*, T*, T*, Arena&, Spread);         \
  template void lift_line_up(const Dim<T>&, const T*, const T*, T*, Arena&, Spread);
RIGHTFAST_LIFTING(float)
RIGHTFAST_LIFTING(double)

}  // namespace rightfast
