// The 5/3 pair over two axes, the last one and the one before it: each row is lifted across and
// along in one loop, so that nothing but the row lifted before is kept of the rows.
#include <algorithm>
#include <utility>

#include "strips.h"

namespace rightfast {
namespace {

constexpr int kSlots = 4;  // rows past the ends that are in use at once: three

// Two rows come out of a step, one for each band of the first axis; the factors of both axes.
template <class T>
void factors(const Dim<T>* dims, Lifting<T>* along) {
  const double *across = dims[0].lift.scale, *scale = dims[1].lift.scale;
  for (int row = 0; row < 2; ++row) {
    along[row] = dims[1].lift.how;
    along[row].scale0 = static_cast<T>(across[row] * scale[0]);
    along[row].scale1 = static_cast<T>(across[row] * scale[1]);
  }
}

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
    T* made = slots_[j % kSlots];
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

// Rows begin to end of the bands. Each step has the row lifted before from the last one.
template <class T>
void rows_down(const Dim<T>* dims, const T* x, T* const* bands, int64_t begin, int64_t end,
               Arena& arena) {
  const Dim<T>& line = dims[1];
  const Lifting<T>& how = dims[0].lift.how;
  const int64_t before = line.axis->before, n = line.size;
  Arena::Scope scope(arena);
  Lifting<T> along[2];
  factors(dims, along);
  ExtendedRows<T> row(dims[0], x, arena);
  T *old = extended_strips<T>(*line.axis, arena), *fresh = extended_strips<T>(*line.axis, arena);
  T* other = extended_strips<T>(*line.axis, arena);
  std::fill_n(old + before, n, T(0));
  for (int64_t o = begin - 1; o < end; ++o) {
    const int64_t j = 2 * o + (how.second_first ? 2 : 3);
    const LiftedRows<T> rows{row(j), row(j + 1), row(j + 2), old + before, fresh + before};
    if (o < begin) {
      loops<T>().lift_rows(how, rows, other + before, 0, n);
    } else {
      // What is stored must reach the cache before other vectors are read there: the loop between.
      T *low = how.second_first ? other : old, *high = how.second_first ? fresh : other;
      loops<T>().lift_rows(how, rows, other + before, 0, line.lift.left);
      loops<T>().lift_rows(how, rows, other + before, line.lift.right, n);
      extend(line, low), extend(line, high);
      const Moved out(bands, 4, o * dims[0].inner_band);
      const int64_t to = 2 - before;  // pair 0 in a row
      const LiftedRows<T> pairs{rows.outer0 + to, rows.centre + to, rows.outer1 + to, rows.old + to,
                                rows.fresh + to};
      if (line.lift.begin < line.lift.end)
        loops<T>().lift_plane_down(how, along, &pairs, out.bands, line.lift.begin, line.lift.end);
      ends_down(line, along[0], low, out.bands[0], out.bands[1]);
      ends_down(line, along[1], high, out.bands[2], out.bands[3]);
    }
    std::swap(old, fresh);
  }
}

// Rows of the bands: row k is the first one of a pair of rows, or the second one, in turn, of the low
// run or of the high one; zero outside.
template <class T>
class BandRows {
 public:
  BandRows(const Dim<T>& dim, const T* const* bands, const T* zeros)
      : dim_(dim), bands_(bands), zeros_(zeros) {}

  const T* operator()(int64_t k, int run) const {
    if (k < 0 || k >= 2 * dim_.bands) return zeros_;
    return bands_[k % 2 * 2 + run] + k / 2 * dim_.inner_band;
  }

 private:
  const Dim<T>& dim_;
  const T* const* bands_;
  const T* zeros_;
};

// Both runs of the rows of one step.
template <class T>
struct Runs {
  LiftedRows<T> rows[2];
  Runs(const BandRows<T>& row, int64_t k, T* const* old, T* const* fresh) {
    for (int run = 0; run < 2; ++run)
      rows[run] = {row(k, run), row(k + 1, run), row(k + 2, run), old[run], fresh[run]};
  }
  void lift(const Lifting<T>& how, T* const* other, int64_t begin, int64_t end) const {
    for (int run = 0; run < 2; ++run) loops<T>().lift_rows(how, rows[run], other[run], begin, end);
  }
};

// Rows of pairs begin to end of the extended image; target(j) says where row j goes, and done(j)
// follows when it is there.
template <class T, class Target, class Done>
void rows_up(const Dim<T>* dims, const T* const* bands, int64_t begin, int64_t end, Arena& arena,
             const Target& target, const Done& done) {
  const Dim<T>& line = dims[1];
  const Lifting<T>& how = dims[0].lift.how;
  const int64_t width = line.bands, to = 2 - line.axis->before;
  Arena::Scope scope(arena);
  Lifting<T> along[2];
  factors(dims, along);
  T *old[2], *fresh[2], *other[2], *zeros, *e = extended_strips<T>(*line.axis, arena);
  for (T** strip : {&old[0], &old[1], &fresh[0], &fresh[1], &other[0], &other[1], &zeros})
    *strip = padded_strips<T>(*line.axis, arena);
  for (T* zero : {zeros, old[0], old[1]}) std::fill_n(zero, width, T(0));
  const BandRows<T> row(dims[0], bands, zeros);
  for (int64_t i = begin - 1; i < end; ++i) {
    const Runs<T> runs(row, 2 * i + (how.second_first ? 0 : 1), old, fresh);
    if (i < begin) {
      runs.lift(how, other, 0, width);
    } else {
      T* x[2] = {target(2 * i + 2), target(2 * i + 3)};
      T* const out[4] = {x[0] + to, nullptr, x[1] + to, nullptr};
      runs.lift(how, other, 0, line.lift.left);
      runs.lift(how, other, line.lift.right, width);
      if (line.lift.begin < line.lift.end)
        loops<T>().lift_plane_up(how, along, runs.rows, out, line.lift.begin, line.lift.end);
      T **low = how.second_first ? other : old, **high = how.second_first ? fresh : other;
      ends_up(line, along[0], low[0], low[1], e, x[0]);
      ends_up(line, along[1], high[0], high[1], e, x[1]);
      done(2 * i + 2, x[0]), done(2 * i + 3, x[1]);
    }
    std::swap(old, fresh);
  }
}

}  // namespace

template <class T>
void lift_plane_down(const Dim<T>* dims, const T* x, T* const* bands, Arena& arena, Spread spread) {
  spread(dims->bands, arena, [&](int64_t begin, int64_t end, Arena& own) {
    rows_down(dims, x, bands, begin, end, own);
  });
}

// What lies past the ends is folded back. It may go to rows of another thread: after all of them.
template <class T>
void lift_plane_up(const Dim<T>* dims, const T* const* bands, T* x, Arena& arena, Spread spread) {
  const Dim<T>& dim = *dims;
  const int64_t before = dim.axis->before, past = before + dim.size, inner = dim.inner;
  const int64_t first = pair_of(before), last = pair_of(past - 1) + 1;
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
  const auto target = [&](int64_t j) { return spare[j % 2]; };
  const auto fold = [&](int64_t j, const T* row) {
    for (const auto& o : dim.lift.outside) {
      if (o.to != j) continue;
      T* to = x + (o.from - before) * inner;
      for (int64_t i = 0; i < inner; ++i) to[i] += o.weight * row[i];
    }
  };
  rows_up(dims, bands, -1, pair_of(before - 1) + 1, arena, target, fold);
  rows_up(dims, bands, pair_of(past), dim.bands + 1, arena, target, fold);
}

#define RIGHTFAST_PLANE(T)                                                            \
  template void lift_plane_down(const Dim<T>*, const T*, T* const*, Arena&, Spread);  \
  template void lift_plane_up(const Dim<T>*, const T* const*, T*, Arena&, Spread);
RIGHTFAST_PLANE(float)
RIGHTFAST_PLANE(double)

}  // namespace rightfast
