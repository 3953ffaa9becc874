// Lifting over two axes, the last one and the one before it: each row is lifted across and along in
// one loop, so that nothing is kept of the rows but those lifted before that the next ones need.
#include <algorithm>

#include "strips.h"

namespace rightfast {
namespace {

constexpr int kSlots = 8;  // a power of two; rows past the ends that are in use at once: up to six
static_assert(kSlots >= 2 * kLiftReach + 2);

// Rows of the extended image.
template <class T>
class ExtendedRows {
 public:
  ExtendedRows(const Dim<T>& dim, const T* x, Arena& arena) : dim_(dim), x_(x) {
    for (T*& slot : slots_) slot = arena.take<T>(dim.inner);
  }

  const T* operator()(int64_t j) {
    const Axis& axis = *dim_.axis;
    if (j >= axis.before && j < axis.before + axis.n) return inside(j);
    const auto& all = dim_.lift.outside;
    auto o = std::lower_bound(all.begin(), all.end(), j,
                              [](const auto& a, int64_t to) { return a.to < to; });
    const bool one = o != all.end() && o->to == j && o->weight == 1;
    if (one && (o + 1 == all.end() || (o + 1)->to != j)) return inside(o->from);
    T* made = slots_[j & (kSlots - 1)];
    std::fill_n(made, dim_.inner, T(0));
    for (; o != all.end() && o->to == j; ++o) {
      const T* from = inside(o->from);
      for (int64_t i = 0; i < dim_.inner; ++i) made[i] += o->weight * from[i];
    }
    return made;
  }

 private:
  const T* inside(int64_t j) const { return x_ + (j - dim_.axis->before) * dim_.inner; }
  const Dim<T>& dim_;
  const T* x_;
  T* slots_[kSlots];
};

// Pairs begin to end of rows. Those of u, of the first axis, are lifted `reach` pairs ahead, and kept.
template <class T>
void rows_down(const Dim<T>* dims, const T* x, T* const* bands, int64_t begin, int64_t end,
               Arena& arena) {
  const Dim<T>& line = dims[1];
  const Lift<T>&across = dims[0].lift, &inside = line.lift;
  const LiftSteps &steps = across.steps, &fine = inside.steps;
  const LiftLoops<T>& lift = loops<T>().lift[across.how.shape];
  const int64_t before = line.axis->before, n = line.size, reach = steps.reach;
  const int64_t count = 2 * reach + steps.centred, middle = reach - 1 + steps.centred;
  Arena::Scope scope(arena);
  const Lifting<T>* both = across.along;
  ExtendedRows<T> row(dims[0], x, arena);
  T *kept[2 * kLiftReach + 1], *v = extended_strips<T>(*line.axis, arena);
  for (int64_t k = 0; k < count; ++k) {
    kept[k] = extended_strips<T>(*line.axis, arena);
    std::fill_n(kept[k] + before, n, T(0));
  }
  T* const spare[] = {arena.take<T>(line.bands), arena.take<T>(line.bands)};
  for (int64_t i = begin - count + 1; i < end; ++i) {
    const int64_t ahead = steps.offset() + 2 * (i + reach);
    LiftedRows<T> rows{{}, row(ahead - 1), row(ahead + 1), row(ahead),
                       row(steps.offset() + 2 * i + 1), kept[count - 1] + before};
    for (int64_t k = 0; k + 1 < count; ++k) rows.around[k] = kept[k] + before;
    if (i < begin) {
      lift.across_down(across.how, rows, v + before, 0, n);
      std::rotate(kept, kept + 1, kept + count);
      continue;
    }
    // What is stored must reach the cache before other vectors are read there: the loop between.
    lift.across_down(across.how, rows, v + before, 0, inside.left);
    lift.across_down(across.how, rows, v + before, inside.right, n);
    extend(line, kept[middle]), extend(line, v);
    T* out[4];  // of the rows u and v, the bands of the first and the second samples
    for (int k = 0; k < 4; ++k) {
      const int64_t o = i + (k / 2 ? steps.shift : 0);
      const int band = ((k / 2) ^ steps.u) * 2 + ((k % 2) ^ fine.first);
      out[k] = o >= 0 && o < dims->bands ? bands[band] + o * dims->inner_band : spare[k % 2];
    }
    const LiftedRows<T> pairs = rows.moved(2 * fine.reach - before);
    if (inside.begin < inside.end)
      lift.plane_down(across.how, both, &pairs, out, inside.begin, inside.end);
    ends_down(line, both[0], kept[middle], out[0], out[1]);
    ends_down(line, both[1], v, out[2], out[3]);
    std::rotate(kept, kept + 1, kept + count);
  }
}

// Rows of pairs begin to end of the extended image; target(j) says where row j goes, and done(j)
// follows when it is there.
template <class T, class Target, class Done>
void rows_up(const Dim<T>* dims, const T* const* bands, int64_t begin, int64_t end, Arena& arena,
             const Target& target, const Done& done) {
  const Dim<T>& line = dims[1];
  const Lift<T>&across = dims[0].lift, &inside = line.lift;
  const LiftSteps &steps = across.steps, &fine = inside.steps;
  const LiftLoops<T>& lift = loops<T>().lift[across.how.shape];
  const int64_t width = line.bands, count = 2 * steps.reach + steps.centred;
  const int64_t to = 2 * fine.reach - line.axis->before;
  Arena::Scope scope(arena);
  const Lifting<T>* both = across.along;
  T *zeros, *old[2], *fresh[2], *v[2], *e = extended_strips<T>(*line.axis, arena);
  for (T** strip : {&zeros, &old[0], &old[1], &fresh[0], &fresh[1], &v[0], &v[1]})
    *strip = padded_strips<T>(*line.axis, arena);
  for (T* zero : {zeros, old[0], old[1]}) std::fill_n(zero, width, T(0));
  const auto row = [&](int64_t o, int r, int c) -> const T* {  // o of u (r = 0) or v; c: along
    const int band = (r ^ steps.u) * 2 + (c ^ fine.first);
    return o >= 0 && o < dims->bands ? bands[band] + o * dims->inner_band : zeros;
  };
  for (int64_t i = begin - !steps.centred; i < end; ++i) {
    LiftedRows<T> rows[2];  // of both runs along the line
    for (int run = 0; run < 2; ++run) {
      const int64_t first = i + steps.shift + 1 - count + steps.reach;
      rows[run] = {{}, old[run], nullptr, row(i, 0, run), nullptr, fresh[run]};
      for (int64_t k = 0; k < count; ++k) rows[run].around[k] = row(first + k, 1, run);
    }
    const auto lift_across = [&](int64_t from, int64_t past) {
      for (int run = 0; run < 2; ++run) lift.across_up(across.how, rows[run], v[run], from, past);
    };
    if (i < begin) {
      lift_across(0, width);
    } else {
      const int64_t j = steps.offset() + 2 * i;
      T* x[2] = {target(j), target(j + 1)};
      T* const out[4] = {x[0] + to, nullptr, x[1] + to, nullptr};
      lift_across(0, inside.left), lift_across(inside.right, width);
      if (inside.begin < inside.end)
        lift.plane_up(across.how, both, rows, out, inside.begin, inside.end);
      ends_up(line, both[0], v[0], v[1], e, x[0]);
      ends_up(line, both[1], fresh[0], fresh[1], e, x[1]);
      done(j, x[0]), done(j + 1, x[1]);
    }
    for (int run = 0; run < 2; ++run) std::swap(old[run], fresh[run]);
  }
}

}  // namespace

template <class T>
void lift_plane_down(const Dim<T>* dims, const T* x, T* const* bands, Arena& arena, Spread spread) {
  const int64_t first = -dims->lift.steps.shift;
  spread(dims->bands - first, arena, [&](int64_t begin, int64_t end, Arena& own) {
    rows_down(dims, x, bands, first + begin, first + end, own);
  });
}

// What lies past the ends is folded back. It may go to rows of another thread: after all of them.
template <class T>
void lift_plane_up(const Dim<T>* dims, const T* const* bands, T* x, Arena& arena, Spread spread) {
  const Dim<T>& dim = *dims;
  const int64_t offset = dim.lift.steps.offset();
  const int64_t before = dim.axis->before, past = before + dim.size, inner = dim.inner;
  const int64_t first = pair_of(before, offset), last = pair_of(past - 1, offset) + 1;
  spread(last - first, arena, [&](int64_t begin, int64_t end, Arena& own) {
    Arena::Scope scope(own);
    T* spare = own.take<T>(inner);
    const auto target = [&](int64_t j) {
      return j >= before && j < past ? x + (j - before) * inner : spare;
    };
    rows_up(dims, bands, first + begin, first + end, own, target, [](int64_t, T*) {});
  });
  if (dim.lift.outside.empty()) return;
  Arena::Scope scope(arena);
  T* spare[2] = {arena.take<T>(inner), arena.take<T>(inner)};
  const auto target = [&](int64_t j) { return spare[j & 1]; };
  const auto fold = [&](int64_t j, const T* row) {
    for (const auto& o : dim.lift.outside) {
      if (o.to != j) continue;
      T* to = x + (o.from - before) * inner;
      for (int64_t i = 0; i < inner; ++i) to[i] += o.weight * row[i];
    }
  };
  const int64_t all = dim.axis->extended();
  rows_up(dims, bands, pair_of(0, offset), pair_of(before - 1, offset) + 1, arena, target, fold);
  rows_up(dims, bands, pair_of(past, offset), pair_of(all - 1, offset) + 1, arena, target, fold);
}

#define RIGHTFAST_PLANE(T)                                                            \
  template void lift_plane_down(const Dim<T>*, const T*, T* const*, Arena&, Spread);  \
  template void lift_plane_up(const Dim<T>*, const T* const*, T*, Arena&, Spread);
RIGHTFAST_PLANE(float)
RIGHTFAST_PLANE(double)

}  // namespace rightfast
