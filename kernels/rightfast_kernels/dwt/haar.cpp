// One level of Haar's pair, (c, c) and (c, -c), over the last axes, up to three, in one pass.
//
// An output needs two samples along each axis and no other output does, so nothing is kept between
// them: the loops read 2^(axes-1) rows and write their 2^axes bands. An axis of odd length has one
// sample past its end, which the mode makes of those inside: a slab of scratch memory, or a column.
// Back, it comes out beside the rest and is folded.
#include <algorithm>

#include "level.h"

namespace rightfast {
namespace {

constexpr int kRows = 1 << (kHaarAxes - 1);

// What stays the same from the outermost axis inwards.
template <class T>
struct Pass {
  const Dim<T>* dims;
  int axes() const { return dims->haar; }
  int rows() const { return 1 << (axes() - 1); }
  int bands() const { return 1 << axes(); }
  T scale() const { return dims->haar_scale; }
  bool past() const { return dims->past_caches; }
  const Dim<T>& line() const { return dims[axes() - 1]; }
};

// The slab past the end of a dimension.
template <class T>
const T* beyond(const Dim<T>& dim, const T* slab, Arena& arena) {
  const auto& outside = dim.outside;
  if (outside.size() == 1 && outside[0].weight == 1) return slab + outside[0].from * dim.inner;
  T* made = arena.take<T>(dim.inner);
  std::fill_n(made, dim.inner, T(0));
  for (const auto& o : outside) {
    const T* from = slab + o.from * dim.inner;
    for (int64_t i = 0; i < dim.inner; ++i) made[i] += o.weight * from[i];
  }
  return made;
}

template <class T>
void fold(const Dim<T>& dim, const T* made, T* slab) {
  for (const auto& o : dim.outside) {
    T* to = slab + o.from * dim.inner;
    for (int64_t i = 0; i < dim.inner; ++i) to[i] += o.weight * made[i];
  }
}

// The last output of lines of odd length: `count` groups of rows, `step` apart.
template <class T>
void down_ends(const Pass<T>& pass, const T* const* rows, int64_t step, int64_t count,
               T* const* bands, int64_t band_step, Arena& arena) {
  const Dim<T>& line = pass.line();
  const int64_t n = line.size;
  if (n % 2 == 0) return;
  Arena::Scope scope(arena);
  const int many = pass.rows();
  T* ends = arena.take<T>(2 * many * count);
  const T* pair[kRows];
  for (int r = 0; r < many; ++r) {
    pair[r] = ends + 2 * r;
    for (int64_t i = 0; i < count; ++i) {
      const T* row = rows[r] + i * step;
      T* end = ends + 2 * (i * many + r);
      end[0] = row[n - 1], end[1] = 0;
      for (const auto& o : line.outside) end[1] += o.weight * row[o.from];
    }
  }
  loops<T>().haar_down[0][pass.axes() - 1](pair, 2 * many, count, 1,
                                        Moved(bands, pass.bands(), n / 2).bands, band_step,
                                        pass.scale());
}

template <class T>
void up_ends(const Pass<T>& pass, const T* const* bands, int64_t band_step, int64_t count,
             T* const* rows, int64_t step, Arena& arena) {
  const Dim<T>& line = pass.line();
  const int64_t n = line.size;
  if (n % 2 == 0) return;
  Arena::Scope scope(arena);
  const int many = pass.rows();
  T* ends = arena.take<T>(2 * many * count);
  T* pair[kRows];
  for (int r = 0; r < many; ++r) pair[r] = ends + 2 * r;
  loops<T>().haar_up[0][pass.axes() - 1](Moved(bands, pass.bands(), n / 2).bands, band_step, count, 1,
                                      pair, 2 * many, pass.scale());
  for (int r = 0; r < many; ++r)
    for (int64_t i = 0; i < count; ++i) {
      const T* end = ends + 2 * (i * many + r);
      T* row = rows[r] + i * step;
      row[n - 1] = end[0];
      for (const auto& o : line.outside) row[o.from] += o.weight * end[1];
    }
}

template <class T>
void down_lines(const Pass<T>& pass, const T* const* rows, int64_t step, int64_t count,
                T* const* bands, int64_t band_step, Arena& arena) {
  loops<T>().haar_down[pass.past()][pass.axes() - 1](rows, step, count, pass.line().size / 2, bands, band_step,
                                        pass.scale());
  down_ends(pass, rows, step, count, bands, band_step, arena);
}

template <class T>
void up_lines(const Pass<T>& pass, const T* const* bands, int64_t band_step, int64_t count,
              T* const* rows, int64_t step, Arena& arena) {
  loops<T>().haar_up[pass.past()][pass.axes() - 1](bands, band_step, count, pass.line().size / 2, rows, step,
                                      pass.scale());
  up_ends(pass, bands, band_step, count, rows, step, arena);
}

// Outputs begin to end along `dim`, of `count` slabs that the axes before it have chosen.
template <class T>
void down_slabs(const Pass<T>& pass, const Dim<T>* dim, const T* const* slabs, int count,
                T* const* bands, int64_t begin, int64_t end, Arena& arena) {
  if (dim->haar == 1) return down_lines(pass, slabs, 0, 1, bands, 0, arena);
  const int64_t inner = dim->inner, whole = std::min(end, dim->size / 2);
  const T* pairs[kRows];
  const auto choose = [&](int64_t o) {
    for (int s = 0; s < count; ++s) {
      pairs[2 * s] = slabs[s] + 2 * o * inner;
      pairs[2 * s + 1] = 2 * o + 1 < dim->size ? pairs[2 * s] + inner : beyond(*dim, slabs[s], arena);
    }
  };
  const auto at = [&](int64_t o) { return Moved(bands, pass.bands(), o * dim->inner_band); };
  if (dim->haar == 2 && begin < whole) {
    choose(begin);
    down_lines(pass, pairs, 2 * inner, whole - begin, at(begin).bands, dim->inner_band, arena);
    begin = whole;
  }
  for (int64_t o = begin; o < end; ++o) {
    Arena::Scope scope(arena);
    choose(o);
    down_slabs(pass, dim + 1, pairs, 2 * count, at(o).bands, 0, dim[1].bands, arena);
  }
}

template <class T>
void up_slabs(const Pass<T>& pass, const Dim<T>* dim, const T* const* bands, T* const* slabs,
              int count, int64_t begin, int64_t end, Arena& arena) {
  if (dim->haar == 1) return up_lines(pass, bands, 0, 1, slabs, 0, arena);
  const int64_t inner = dim->inner, whole = std::min(end, dim->size / 2);
  T* pairs[kRows];
  const auto choose = [&](int64_t o) {
    for (int s = 0; s < count; ++s) {
      pairs[2 * s] = slabs[s] + 2 * o * inner;
      pairs[2 * s + 1] = 2 * o + 1 < dim->size ? pairs[2 * s] + inner : arena.take<T>(inner);
    }
  };
  const auto at = [&](int64_t o) { return Moved(bands, pass.bands(), o * dim->inner_band); };
  if (dim->haar == 2 && begin < whole) {
    choose(begin);
    up_lines(pass, at(begin).bands, dim->inner_band, whole - begin, pairs, 2 * inner, arena);
    begin = whole;
  }
  for (int64_t o = begin; o < end; ++o) {
    Arena::Scope scope(arena);
    choose(o);
    up_slabs(pass, dim + 1, at(o).bands, pairs, 2 * count, 0, dim[1].bands, arena);
    if (2 * o + 1 == dim->size)
      for (int s = 0; s < count; ++s) fold(*dim, pairs[2 * s + 1], slabs[s]);
  }
}

}  // namespace

template <class T>
void haar_down(const Dim<T>* dims, const T* x, T* const* bands, Arena& arena, Spread spread) {
  const Pass<T> pass{dims};
  if (dims->haar > 1)
    return spread(dims->bands, arena, [&](int64_t begin, int64_t end, Arena& own) {
      down_slabs(pass, dims, &x, 1, bands, begin, end, own);
    });
  in_pieces(dims->size / 2 * 2, arena, spread, [&](int64_t first, int64_t count, Arena&) {
    const T* piece = x + first;
    loops<T>().haar_down[pass.past()][0](&piece, 0, 1, count / 2, Moved(bands, 2, first / 2).bands, 0,
                            pass.scale());
  });
  down_ends(pass, &x, 0, 1, bands, 0, arena);
}

// What is folded may belong to another thread: after all of them.
template <class T>
void haar_up(const Dim<T>* dims, const T* const* bands, T* x, Arena& arena, Spread spread) {
  const Pass<T> pass{dims};
  if (dims->haar > 1) {
    spread(dims->size / 2, arena, [&](int64_t begin, int64_t end, Arena& own) {
      up_slabs(pass, dims, bands, &x, 1, begin, end, own);
    });
    return up_slabs(pass, dims, bands, &x, 1, dims->size / 2, dims->bands, arena);
  }
  in_pieces(dims->size / 2 * 2, arena, spread, [&](int64_t first, int64_t count, Arena&) {
    T* piece = x + first;
    loops<T>().haar_up[pass.past()][0](Moved(bands, 2, first / 2).bands, 0, 1, count / 2, &piece, 0,
                          pass.scale());
  });
  up_ends(pass, bands, 0, 1, &x, 0, arena);
}

template <class T>
void mark_haar(std::vector<Dim<T>>& dims) {
  int axes = 0;
  double scale = 1;
  for (auto dim = dims.rbegin(); dim != dims.rend() && axes < kHaarAxes; ++dim) {
    const Axis* axis = dim->axis;
    if (!axis || dim->filtered != axes + 1 || (!axes && dim->inner != 1) || axis->taps() != 2) return;
    const double c = axis->lo[0];
    if (c == 0 || axis->lo[1] != c || axis->hi[0] != c || axis->hi[1] != -c) return;
    if (axis->before != 0 || dim->bands != (dim->size + 1) / 2) return;  // pairs from the first on
    dim->haar = ++axes;
    dim->haar_scale = static_cast<T>(scale *= c);
    for (const Fill& f : fills(*axis)) dim->outside.push_back({f.from, static_cast<T>(f.weight)});
  }
}

#define RIGHTFAST_HAAR(T)                                                            \
  template void haar_down(const Dim<T>*, const T*, T* const*, Arena&, Spread);       \
  template void haar_up(const Dim<T>*, const T* const*, T*, Arena&, Spread);         \
  template void mark_haar(std::vector<Dim<T>>&);
RIGHTFAST_HAAR(float)
RIGHTFAST_HAAR(double)

}  // namespace rightfast
