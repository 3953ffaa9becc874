// A level along one contiguous line.
//
// The extended signal e lies as its even and its odd samples, each a run, so that every tap reads
// consecutive numbers; the few samples past the ends come from a table.
#include <algorithm>
#include <cstring>

#include "level.h"

namespace rightfast {
namespace {

constexpr int64_t kPiece = 1 << 14;  // samples of a long line in one piece of work

// Calls f(first, count) for pieces of a line of n samples; pieces start at even samples.
template <class F>
void in_pieces(int64_t n, const Spread& spread, const F& f) {
  if (n <= kPiece) return f(0, n);
  spread((n + kPiece - 1) / kPiece, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) f(p * kPiece, std::min(kPiece, n - p * kPiece));
  });
}

// Where sample j of e lies, in two phases of `size` samples.
int64_t place(int64_t j, int64_t size) { return j % 2 * size + j / 2; }

template <class T>
void run_sum(const Sums<T>& sums, const T* const* rows, int64_t width, T* out0, T* out1,
             const Spread& spread) {
  const Sum& sum = sums.sums[0];
  int count = sum.only0 + sum.both + sum.only1;
  in_pieces(width, spread, [&](int64_t first, int64_t size) {
    std::vector<const T*> moved(count);
    for (int s = 0; s < count; ++s) moved[s] = rows[s] + first;
    loops<T>().sum(moved.data(), sums.weight0.data(), sums.weight1.data(), sum.only0, sum.both,
                   sum.only1, out0 + first, out1 + first, size);
  });
}

}  // namespace

template <class T>
void line_down(const Dim<T>& dim, const T* x, T* low, T* high, const Spread& spread) {
  const Axis& axis = *dim.axis;
  const int64_t size = axis.phase(), before = axis.before, n = axis.n;
  auto e = scratch<T>(2 * size);
  T* even = e.get() + place(before, size);  // where the even and odd samples of x go
  T* odd = e.get() + place(before + 1, size);
  in_pieces(n, spread, [&](int64_t first, int64_t count) {
    loops<T>().split(x + first, count, even + first / 2, odd + first / 2);
  });
  for (int64_t j = 0; j < before; ++j) e[place(j, size)] = 0;
  for (int64_t j = before + n; j < 2 * size; ++j) e[place(j, size)] = 0;
  for (const Fill& f : dim.border) e[place(f.to, size)] += static_cast<T>(f.weight) * x[f.from];
  std::vector<const T*> rows(dim.line.source.size());
  for (size_t s = 0; s < rows.size(); ++s) rows[s] = e.get() + place(dim.line.source[s], size);
  run_sum(dim.line, rows.data(), axis.length, low, high, spread);
}

template <class T>
void line_up(const Dim<T>& dim, const T* low, const T* high, T* x, const Spread& spread) {
  const Axis& axis = *dim.axis;
  const int64_t half = axis.taps() / 2, length = axis.length, before = axis.before, n = axis.n;
  // Without a fold, only what is inside is made; it may still reach past the ends of the bands.
  const bool fold = !dim.border.empty();
  const int64_t q0 = fold ? 0 : before / 2, q1 = fold ? axis.phase() : (before + n + 1) / 2;
  const int64_t size = q1 - q0, pad = half - 1, padded = length + 2 * pad;
  std::unique_ptr<T[]> wide;
  if (q0 < pad || q1 > length) {
    wide = scratch<T>(2 * padded);
    for (const T** band : {&low, &high}) {
      T* copy = wide.get() + (band == &low ? 0 : padded);
      std::fill_n(copy, pad, T(0));
      std::memcpy(copy + pad, *band, length * sizeof(T));
      std::fill_n(copy + pad + length, pad, T(0));
      *band = copy + pad;
    }
  }
  std::vector<const T*> rows(dim.line.source.size());
  for (size_t s = 0; s < rows.size(); ++s) {
    int64_t m = dim.line.source[s];
    rows[s] = m < half ? low + q0 - m : high + q0 - (m - half);
  }
  auto e = scratch<T>(2 * size);
  run_sum(dim.line, rows.data(), size, e.get(), e.get() + size, spread);
  const T* base = e.get() - (fold ? 0 : q0);
  for (const Fill& f : dim.border)
    e[place(f.from + before, size)] += static_cast<T>(f.weight) * e[place(f.to, size)];
  const T *even = base + place(before, size), *odd = base + place(before + 1, size);
  in_pieces(n, spread, [&](int64_t first, int64_t count) {
    loops<T>().weave(even + first / 2, odd + first / 2, count, x + first);
  });
}

template void line_down(const Dim<float>&, const float*, float*, float*, const Spread&);
template void line_down(const Dim<double>&, const double*, double*, double*, const Spread&);
template void line_up(const Dim<float>&, const float*, const float*, float*, const Spread&);
template void line_up(const Dim<double>&, const double*, const double*, double*, const Spread&);

}  // namespace rightfast
