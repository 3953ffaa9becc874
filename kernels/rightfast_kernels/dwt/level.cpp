// One level over several axes, from the outermost dimension inwards.
//
// The outermost filtered dimension is summed across its slices into a slice of scratch memory for
// each output, low and high, and each goes straight on to the next dimension while it is in the
// caches: no axis makes a pass of its own over the data. Back, the same in the same order: the
// filters of different axes commute.
#include "level.h"

#include <algorithm>

namespace rightfast {
namespace {

template <class T>
using Dims = const Dim<T>*;

template <class T>
void sum_slices(const Sums<T>& sums, const Sum& sum, const std::vector<const T*>& rows, T* out0,
                T* out1, int64_t width) {
  loops<T>().sum(rows.data(), sums.weight0.data() + sum.first, sums.weight1.data() + sum.first,
                 sum.only0, sum.both, sum.only1, out0, out1, width);
}

int count(const Sum& sum) { return sum.only0 + sum.both + sum.only1; }

// A line whose samples are `step` apart goes through contiguous memory.
template <class T>
void lines_down(Dims<T> dim, const T* x, T* const* bands, const Spread& spread) {
  const int64_t step = dim->inner, n = dim->size, length = dim->bands;
  if (step == 1) return line_down(*dim, x, bands[0], bands[1], spread);
  auto line = scratch<T>(n + 2 * length);
  T *low = line.get() + n, *high = low + length;
  for (int64_t c = 0; c < step; ++c) {
    for (int64_t i = 0; i < n; ++i) line[i] = x[i * step + c];
    line_down(*dim, line.get(), low, high, spread);
    for (int64_t o = 0; o < length; ++o) {
      bands[0][o * step + c] = low[o];
      bands[1][o * step + c] = high[o];
    }
  }
}

template <class T>
void lines_up(Dims<T> dim, const T* const* bands, T* x, const Spread& spread) {
  const int64_t step = dim->inner, n = dim->size, length = dim->bands;
  if (step == 1) return line_up(*dim, bands[0], bands[1], x, spread);
  auto line = scratch<T>(n + 2 * length);
  T *low = line.get() + n, *high = low + length;
  for (int64_t c = 0; c < step; ++c) {
    for (int64_t o = 0; o < length; ++o) {
      low[o] = bands[0][o * step + c];
      high[o] = bands[1][o * step + c];
    }
    line_up(*dim, low, high, line.get(), spread);
    for (int64_t i = 0; i < n; ++i) x[i * step + c] = line[i];
  }
}

template <class T> void down(Dims<T> dim, const T* x, T* const* bands, const Spread& spread);
template <class T> void up(Dims<T> dim, const T* const* bands, T* x, const Spread& spread);

// Bands moved on by `offset` elements.
template <class P>
std::vector<P> moved(const P* bands, int number, int64_t offset) {
  std::vector<P> found(bands, bands + number);
  for (P& band : found) band += offset;
  return found;
}

template <class T>
void down_slices(Dims<T> dim, const T* x, T* const* bands, int64_t begin, int64_t end) {
  const int half = 1 << (dim->filtered - 1);
  const bool last = dim->filtered == 1;
  auto buffer = scratch<T>(last ? 0 : 2 * dim->inner);
  std::vector<const T*> rows;
  for (int64_t o = begin; o < end; ++o) {
    const Sum& sum = dim->rows.sums[o];
    rows.resize(count(sum));
    for (int s = 0; s < count(sum); ++s) rows[s] = x + dim->rows.source[sum.first + s] * dim->inner;
    const int64_t at = o * dim->inner_band;
    T* low = last ? bands[0] + at : buffer.get();
    T* high = last ? bands[1] + at : buffer.get() + dim->inner;
    sum_slices(dim->rows, sum, rows, low, high, dim->inner);
    if (last) continue;
    down<T>(dim + 1, low, moved(bands, half, at).data(), in_this_thread);
    down<T>(dim + 1, high, moved(bands + half, half, at).data(), in_this_thread);
  }
}

template <class T>
void up_slices(Dims<T> dim, const T* const* bands, T* x, int64_t begin, int64_t end) {
  const int half = 1 << (dim->filtered - 1);
  const bool last = dim->filtered == 1;
  const int64_t width = dim->inner_band, first = dim->axis->before % 2;
  auto buffer = scratch<T>(2 * half * width);
  std::vector<const T*> rows, slices[2];
  for (int64_t q = begin; q < end; ++q) {
    const Sum& sum = dim->rows.sums[q];
    const int64_t n0 = 2 * q - first;  // the two samples n0 and n0 + 1, where they exist
    const bool exists[2] = {n0 >= 0, n0 + 1 < dim->size};
    rows.resize(count(sum));
    slices[0].clear(), slices[1].clear();
    for (int band = 0; band < half; ++band) {
      for (int s = 0; s < count(sum); ++s) {
        int64_t source = dim->rows.source[sum.first + s];
        rows[s] = bands[source % 2 * half + band] + source / 2 * width;
      }
      T* out[2];
      for (int64_t p = 0; p < 2; ++p) {
        out[p] = last && exists[p] ? x + (n0 + p) * width : buffer.get() + (2 * band + p) * width;
        slices[p].push_back(out[p]);
      }
      sum_slices(dim->rows, sum, rows, out[0], out[1], width);
    }
    for (int64_t p = 0; p < 2; ++p)
      if (!last && exists[p])
        up<T>(dim + 1, slices[p].data(), x + (n0 + p) * dim->inner, in_this_thread);
  }
}

template <class T>
void down(Dims<T> dim, const T* x, T* const* bands, const Spread& spread) {
  if (dim->is_line()) return lines_down(dim, x, bands, spread);
  spread(dim->bands, [&](int64_t begin, int64_t end) {
    if (dim->axis) return down_slices(dim, x, bands, begin, end);
    for (int64_t i = begin; i < end; ++i)
      down<T>(dim + 1, x + i * dim->inner,
              moved(bands, 1 << dim->filtered, i * dim->inner_band).data(), in_this_thread);
  });
}

template <class T>
void up(Dims<T> dim, const T* const* bands, T* x, const Spread& spread) {
  if (dim->is_line()) return lines_up(dim, bands, x, spread);
  const int64_t items = dim->axis ? static_cast<int64_t>(dim->rows.sums.size()) : dim->size;
  spread(items, [&](int64_t begin, int64_t end) {
    if (dim->axis) return up_slices(dim, bands, x, begin, end);
    for (int64_t i = begin; i < end; ++i)
      up<T>(dim + 1, moved(bands, 1 << dim->filtered, i * dim->inner_band).data(),
            x + i * dim->inner, in_this_thread);
  });
}

}  // namespace

template <class T>
void level_down(const std::vector<Dim<T>>& dims, const T* x, T* const* bands,
                const Spread& spread) {
  down(dims.data(), x, bands, spread);
}

template <class T>
void level_up(const std::vector<Dim<T>>& dims, const T* const* bands, T* x, const Spread& spread) {
  up(dims.data(), bands, x, spread);
}

template void level_down(const std::vector<Dim<float>>&, const float*, float* const*,
                         const Spread&);
template void level_down(const std::vector<Dim<double>>&, const double*, double* const*,
                         const Spread&);
template void level_up(const std::vector<Dim<float>>&, const float* const*, float*, const Spread&);
template void level_up(const std::vector<Dim<double>>&, const double* const*, double*,
                       const Spread&);

}  // namespace rightfast
