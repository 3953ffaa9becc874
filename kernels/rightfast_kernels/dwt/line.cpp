// A level along one contiguous line. The few samples past its ends come from a table.
#include <algorithm>
#include <cstring>

#include "level.h"

namespace rightfast {
namespace {

template <class T>
void run_sum(const Sums<T>& sums, const T* const* rows, int64_t width, T* out0, T* out1,
             Arena& arena, Spread spread) {
  in_pieces(width, arena, spread, [&](int64_t first, int64_t count) {
    loops<T>().sum(sums.at(0, rows), out0, out1, first, first + count);
  });
}

}  // namespace

template <class T>
Border<T>::Border(const Axis& axis) {
  const int64_t size = axis.phase();
  const std::vector<Fill> all = fills(axis);
  auto fill = all.begin();
  for (int64_t j = 0; j < 2 * size; ++j) {
    if (j >= axis.before && j < axis.before + axis.n) continue;
    if (fill == all.end() || fill->to != j) zeros.push_back(place(j, size));
    for (bool first = true; fill != all.end() && fill->to == j; ++fill, first = false)
      (first ? copies : added)
          .push_back({place(j, size), place(axis.before + fill->from, size),
                      static_cast<T>(fill->weight)});
  }
}

template <class T>
void line_down_from(const Dim<T>& dim, T* e, T* low, T* high, Arena& arena, Spread spread) {
  const int64_t size = dim.axis->phase();
  for (int64_t zero : dim.border.zeros) e[zero] = 0;
  for (const auto& c : dim.border.copies) e[c.to] = c.weight * e[c.from];
  for (const auto& c : dim.border.added) e[c.to] += c.weight * e[c.from];
  Arena::Scope scope(arena);
  const T** rows = arena.take<const T*>(dim.line.source.size());
  for (size_t s = 0; s < dim.line.source.size(); ++s) rows[s] = e + place(dim.line.source[s], size);
  run_sum(dim.line, rows, dim.axis->length, low, high, arena, spread);
}

template <class T>
void line_down(const Dim<T>& dim, const T* x, T* low, T* high, Arena& arena, Spread spread) {
  const int64_t size = dim.axis->phase(), before = dim.axis->before;
  Arena::Scope scope(arena);
  T* e = arena.take<T>(2 * size);
  T *even = e + place(before, size), *odd = e + place(before + 1, size);  // samples of x
  in_pieces(dim.axis->n, arena, spread, [&](int64_t first, int64_t count) {
    loops<T>().split(x + first, count, even + first / 2, odd + first / 2);
  });
  line_down_from(dim, e, low, high, arena, spread);
}

template <class T>
void line_up(const Dim<T>& dim, const T* low, const T* high, T* x, Arena& arena,
               Spread spread) {
  const Axis& axis = *dim.axis;
  const int64_t half = axis.taps() / 2, length = axis.length, before = axis.before, n = axis.n;
  // Without a fold, only what is inside is made; it may still reach past the ends of the bands.
  const bool fold = !dim.border.copies.empty();
  const int64_t q0 = fold ? 0 : before / 2, q1 = fold ? axis.phase() : (before + n + 1) / 2;
  const int64_t size = q1 - q0, pad = half - 1, padded = length + 2 * pad;
  Arena::Scope scope(arena);
  if (q0 < pad || q1 > length) {
    T* wide = arena.take<T>(2 * padded);
    for (const T** band : {&low, &high}) {
      T* copy = wide + (band == &low ? 0 : padded);
      std::fill_n(copy, pad, T(0));
      std::memcpy(copy + pad, *band, length * sizeof(T));
      std::fill_n(copy + pad + length, pad, T(0));
      *band = copy + pad;
    }
  }
  const T** rows = arena.take<const T*>(dim.line.source.size());
  for (size_t s = 0; s < dim.line.source.size(); ++s) {
    int64_t m = dim.line.source[s];
    rows[s] = m < half ? low + q0 - m : high + q0 - (m - half);
  }
  if (!fold && before % 2 == 0) {
    in_pieces(n, arena, spread, [&](int64_t first, int64_t count) {
      loops<T>().sum_weave(dim.line.at(0, rows), x, first, first + count);
    });
    return;
  }
  T* e = arena.take<T>(2 * size);
  run_sum(dim.line, rows, size, e, e + size, arena, spread);
  const T* base = e - (fold ? 0 : q0);
  for (const auto& c : dim.border.copies) e[c.from] += c.weight * e[c.to];
  for (const auto& c : dim.border.added) e[c.from] += c.weight * e[c.to];
  const T *even = base + place(before, size), *odd = base + place(before + 1, size);
  in_pieces(n, arena, spread, [&](int64_t first, int64_t count) {
    loops<T>().weave(even + first / 2, odd + first / 2, count, x + first);
  });
}

template struct Border<float>;
template struct Border<double>;
template void line_down(const Dim<float>&, const float*, float*, float*, Arena&, Spread);
template void line_down(const Dim<double>&, const double*, double*, double*, Arena&, Spread);
template void line_down_from(const Dim<float>&, float*, float*, float*, Arena&, Spread);
template void line_down_from(const Dim<double>&, double*, double*, double*, Arena&, Spread);
template void line_up(const Dim<float>&, const float*, const float*, float*, Arena&, Spread);
template void line_up(const Dim<double>&, const double*, const double*, double*, Arena&, Spread);

}  // namespace rightfast
