// One level over several axes, from the outermost dimension inwards.
//
// The outermost filtered dimension is summed across its slices into a slice of scratch memory for
// each output, low and high, and each goes straight on to the next dimension while it is in the
// caches: no axis makes a pass of its own over the data. Back, the same in the same order: the
// filters of different axes commute.
#include "level.h"

namespace rightfast {
namespace {

// A line whose samples are `inner` apart goes through contiguous memory.
template <class T>
void lines_down(const Dim<T>& dim, const T* x, T* const* bands, Arena& arena, Spread spread) {
  const int64_t step = dim.inner, n = dim.size, length = dim.bands;
  if (step == 1) return line_down(dim, x, bands[0], bands[1], arena, spread);
  Arena::Scope scope(arena);
  T *line = arena.take<T>(n), *low = arena.take<T>(length), *high = arena.take<T>(length);
  for (int64_t c = 0; c < step; ++c) {
    for (int64_t i = 0; i < n; ++i) line[i] = x[i * step + c];
    line_down(dim, line, low, high, arena, spread);
    for (int64_t o = 0; o < length; ++o) {
      bands[0][o * step + c] = low[o];
      bands[1][o * step + c] = high[o];
    }
  }
}

template <class T>
void lines_up(const Dim<T>& dim, const T* const* bands, T* x, Arena& arena, Spread spread) {
  const int64_t step = dim.inner, n = dim.size, length = dim.bands;
  if (step == 1) return line_up(dim, bands[0], bands[1], x, arena, spread);
  Arena::Scope scope(arena);
  T *line = arena.take<T>(n), *low = arena.take<T>(length), *high = arena.take<T>(length);
  for (int64_t c = 0; c < step; ++c) {
    for (int64_t o = 0; o < length; ++o) {
      low[o] = bands[0][o * step + c];
      high[o] = bands[1][o * step + c];
    }
    line_up(dim, low, high, line, arena, spread);
    for (int64_t i = 0; i < n; ++i) x[i * step + c] = line[i];
  }
}

// The rows of one sum: slices of x.
template <class T>
Rows<T> slices_of(const Dim<T>& dim, int64_t o, const T* x, const T** rows) {
  const Sum& sum = dim.rows.sums[o];
  for (int s = 0; s < sum.count(); ++s) rows[s] = x + dim.rows.source[sum.first + s] * dim.inner;
  return dim.rows.at(o, rows);
}

template <class T>
void down_slices(const Dim<T>& dim, const T* x, T* const* bands, int64_t begin, int64_t end,
                 Arena& arena) {
  const int half = 1 << (dim.filtered - 1);
  Arena::Scope scope(arena);
  const T** rows = arena.take<const T*>(dim.rows.most);
  T* slices[2] = {arena.take<T>(dim.inner), arena.take<T>(dim.inner)};
  for (int64_t o = begin; o < end; ++o) {
    const int64_t at = o * dim.inner_band;
    const bool last = dim.filtered == 1;
    T *low = last ? bands[0] + at : slices[0], *high = last ? bands[1] + at : slices[1];
    loops<T>().sum(slices_of(dim, o, x, rows), low, high, 0, dim.inner);
    if (last) continue;
    level_down(&dim + 1, low, Moved(bands, half, at).bands, arena, in_this_thread);
    level_down(&dim + 1, high, Moved(bands + half, half, at).bands, arena, in_this_thread);
  }
}

// The same where a slice is one line: it is written as the next dimension reads it, in phases.
template <class T>
void down_lines(const Dim<T>& dim, const T* x, T* const* bands, int64_t begin, int64_t end,
                Arena& arena) {
  const Dim<T>& line = *(&dim + 1);
  const int64_t size = line.axis->phase(), before = line.axis->before;
  Arena::Scope scope(arena);
  const T** rows = arena.take<const T*>(dim.rows.most);
  T *low = arena.take<T>(2 * size), *high = arena.take<T>(2 * size);
  T* phases[4] = {low + place(before, size), low + place(before + 1, size),
                  high + place(before, size), high + place(before + 1, size)};
  for (int64_t o = begin; o < end; ++o) {
    loops<T>().sum_split(slices_of(dim, o, x, rows), phases, dim.inner);
    const int64_t at = o * dim.inner_band;
    line_down_from(line, low, bands[0] + at, bands[1] + at, arena);
    line_down_from(line, high, bands[2] + at, bands[3] + at, arena);
  }
}

template <class T>
void up_slices(const Dim<T>& dim, const T* const* bands, T* x, int64_t begin, int64_t end,
               Arena& arena) {
  const int half = 1 << (dim.filtered - 1);
  const bool last = dim.filtered == 1;
  const int64_t width = dim.inner_band;
  Arena::Scope scope(arena);
  T* slices[2] = {arena.take<T>(half * width), arena.take<T>(half * width)};
  const T** rows = arena.take<const T*>(dim.rows.most);
  for (int64_t q = begin; q < end; ++q) {
    const Sum& sum = dim.rows.sums[q];
    const int64_t n0 = 2 * q - dim.axis->before % 2;  // two samples, where they exist
    const bool exists[2] = {n0 >= 0, n0 + 1 < dim.size};
    for (int band = 0; band < half; ++band) {
      for (int s = 0; s < sum.count(); ++s) {
        const int64_t source = dim.rows.source[sum.first + s];
        rows[s] = bands[source % 2 * half + band] + source / 2 * width;
      }
      T* out[2];
      for (int64_t p = 0; p < 2; ++p)
        out[p] = last && exists[p] ? x + (n0 + p) * width : slices[p] + band * width;
      loops<T>().sum(dim.rows.at(q, rows), out[0], out[1], 0, width);
    }
    for (int64_t p = 0; p < 2 && !last; ++p) {
      if (!exists[p]) continue;
      const T* parts[kMost];
      for (int band = 0; band < half; ++band) parts[band] = slices[p] + band * width;
      level_up(&dim + 1, parts, x + (n0 + p) * dim.inner, arena, in_this_thread);
    }
  }
}

}  // namespace

template <class T>
void level_down(const Dim<T>* dims, const T* x, T* const* bands, Arena& arena, Spread spread) {
  const Dim<T>& dim = *dims;
  if (dim.haar) return haar_down(dims, x, bands, arena, spread);
  if (dim.lift.plane) return lift_plane_down(dims, x, bands, arena, spread);
  if (dim.is_line()) return lines_down(dim, x, bands, arena, spread);
  spread(dim.bands, arena, [&](int64_t begin, int64_t end, Arena& own) {
    if (dim.axis && dim.filtered == 2 && dims[1].is_line() && dims[1].inner == 1)
      return down_lines(dim, x, bands, begin, end, own);
    if (dim.axis) return down_slices(dim, x, bands, begin, end, own);
    for (int64_t i = begin; i < end; ++i)
      level_down(dims + 1, x + i * dim.inner,
                 Moved(bands, 1 << dim.filtered, i * dim.inner_band).bands, own, in_this_thread);
  });
}

template <class T>
void level_up(const Dim<T>* dims, const T* const* bands, T* x, Arena& arena, Spread spread) {
  const Dim<T>& dim = *dims;
  if (dim.haar) return haar_up(dims, bands, x, arena, spread);
  if (dim.lift.plane) return lift_plane_up(dims, bands, x, arena, spread);
  if (dim.is_line()) return lines_up(dim, bands, x, arena, spread);
  const int64_t items = dim.axis ? static_cast<int64_t>(dim.rows.sums.size()) : dim.size;
  spread(items, arena, [&](int64_t begin, int64_t end, Arena& own) {
    if (dim.axis) return up_slices(dim, bands, x, begin, end, own);
    for (int64_t i = begin; i < end; ++i)
      level_up(dims + 1, Moved(bands, 1 << dim.filtered, i * dim.inner_band).bands,
               x + i * dim.inner, own, in_this_thread);
  });
}

template void level_down(const Dim<float>*, const float*, float* const*, Arena&, Spread);
template void level_down(const Dim<double>*, const double*, double* const*, Arena&, Spread);
template void level_up(const Dim<float>*, const float* const*, float*, Arena&, Spread);
template void level_up(const Dim<double>*, const double* const*, double*, Arena&, Spread);

}  // namespace rightfast
