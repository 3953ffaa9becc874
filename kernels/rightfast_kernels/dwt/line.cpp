// A level along one contiguous line. The few samples past its ends come from a table.
#include <algorithm>
#include <cstring>

#include "level.h"

namespace rightfast {
namespace {

// So many outputs at a time: what is read and written of one line stays in the first cache.
template <class T>
constexpr int64_t kOutputs = 4096 / sizeof(T);

template <class T>
void run_sum(const Sums<T>& sums, const T* const* rows, int64_t width, T* out0, T* out1,
             Arena& arena, Spread spread) {
  in_pieces(width, arena, spread, [&](int64_t first, int64_t count, Arena&) {
    loops<T>().sum(sums.at(0, rows), out0, out1, first, first + count);
  });
}

// Both bands, from the even and odd samples of an extended line, each a run of `size`.
template <class T>
void sum_phases(const Dim<T>& dim, const T* e, int64_t size, int64_t count, T* low, T* high,
                Arena& arena) {
  Arena::Scope scope(arena);
  const T** rows = arena.take<const T*>(dim.line.source.size());
  for (size_t s = 0; s < dim.line.source.size(); ++s) rows[s] = e + place(dim.line.source[s], size);
  loops<T>().sum(dim.line.at(0, rows), low, high, 0, count);
}

// Outputs o to o + count of a line.
template <class T>
void part_down(const Dim<T>& dim, const T* x, T* low, T* high, int64_t o, int64_t count,
               Arena& arena) {
  const Axis& axis = *dim.axis;
  const int64_t before = axis.before, n = axis.n, whole = axis.phase();
  const int64_t start = 2 * o, end = start + 2 * count + axis.taps() - 2;
  const int64_t size = (count + axis.taps() / 2 - 1 + 15) / 16 * 16;  // phases at whole vectors
  Arena::Scope scope(arena);
  T* e = arena.take<T>(2 * size);
  const int64_t first = std::max<int64_t>(0, start - before), last = std::min(n, end - before);
  const int64_t at = first + before - start;
  if (first < last)
    loops<T>().split(x + first, last - first, e + place(at, size), e + place(at + 1, size));
  if (start < before || end > before + n) {
    const auto index = [&](int64_t p) { return p % whole * 2 + p / whole; };  // of `place`
    const auto fill = [&](int64_t to, auto put) {
      const int64_t j = index(to);
      if (start <= j && j < end) put(e[place(j - start, size)]);
    };
    const auto& border = dim.border;
    for (int64_t zero : border.zeros) fill(zero, [](T& to) { to = 0; });
    for (const auto& c : border.copies)
      fill(c.to, [&](T& to) { to = c.weight * x[index(c.from) - before]; });
    for (const auto& c : border.added)
      fill(c.to, [&](T& to) { to += c.weight * x[index(c.from) - before]; });
  }
  sum_phases(dim, e, size, count, low + o, high + o, arena);
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
void line_down_from(const Dim<T>& dim, T* e, T* low, T* high, Arena& arena) {
  const int64_t size = dim.axis->phase();
  for (int64_t zero : dim.border.zeros) e[zero] = 0;
  for (const auto& c : dim.border.copies) e[c.to] = c.weight * e[c.from];
  for (const auto& c : dim.border.added) e[c.to] += c.weight * e[c.from];
  sum_phases(dim, e, size, dim.axis->length, low, high, arena);
}

template <class T>
void line_down(const Dim<T>& dim, const T* x, T* low, T* high, Arena& arena, Spread spread) {
  if (dim.lift.line) return lift_line_down(dim, x, low, high, arena, spread);
  in_pieces(dim.axis->length, arena, spread, [&](int64_t first, int64_t count, Arena& own) {
    for (int64_t o = first; o < first + count; o += kOutputs<T>)
      part_down(dim, x, low, high, o, std::min(kOutputs<T>, first + count - o), own);
  });
}

template <class T>
void line_up(const Dim<T>& dim, const T* low, const T* high, T* x, Arena& arena,
               Spread spread) {
  if (dim.lift.line) return lift_line_up(dim, low, high, x, arena, spread);
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
    in_pieces(n, arena, spread, [&](int64_t first, int64_t count, Arena&) {
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
  in_pieces(n, arena, spread, [&](int64_t first, int64_t count, Arena&) {
    loops<T>().weave(even + first / 2, odd + first / 2, count, x + first);
  });
}

template struct Border<float>;
template struct Border<double>;
template void line_down(const Dim<float>&, const float*, float*, float*, Arena&, Spread);
template void line_down(const Dim<double>&, const double*, double*, double*, Arena&, Spread);
template void line_down_from(const Dim<float>&, float*, float*, float*, Arena&);
template void line_down_from(const Dim<double>&, double*, double*, double*, Arena&);
template void line_up(const Dim<float>&, const float*, const float*, float*, Arena&, Spread);
template void line_up(const Dim<double>&, const double*, const double*, double*, Arena&, Spread);

}  // namespace rightfast
