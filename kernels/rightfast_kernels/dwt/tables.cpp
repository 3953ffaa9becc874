// The extension of a signal as a sparse matrix, and the sums that a level takes.
//
//   x~(m), m outside of 0 .. n-1, as in extension.py: symmetric x2[m mod 2n]; reflect
//   x2[m mod (2n-2)]; antireflect 2q (x[n-1] - x[0]) + ..., q, r = divmod(m, 2n-2); smooth the
//   straight line through the two samples at the edge.
#include "tables.h"

#include <algorithm>
#include <cmath>

namespace rightfast {
namespace {

int64_t modulo(int64_t a, int64_t b) { return ((a % b) + b) % b; }

struct Collector {
  std::vector<Fill>& found;
  int64_t to;
  void add(int64_t from, double weight) {
    for (auto f = found.rbegin(); f != found.rend() && f->to == to; ++f)
      if (f->from == from) {
        f->weight += weight;
        return;
      }
    found.push_back({to, from, weight});
  }
};

void extend_antireflect(int64_t m, int64_t n, Collector& e) {
  int64_t r = modulo(m, 2 * n - 2), q = (m - r) / (2 * n - 2);
  if (q) e.add(n - 1, 2.0 * q), e.add(0, -2.0 * q);
  if (r < n) return e.add(r, 1);
  e.add(n - 1, 2), e.add(2 * n - 2 - r, -1);
}

void extend_smooth(int64_t m, int64_t n, Collector& e) {
  int64_t edge = m < 0 ? 0 : n - 1, inner = m < 0 ? 1 : n - 2;
  double distance = static_cast<double>(m < 0 ? -m : m - n + 1);
  if (n == 1) return e.add(0, 1);
  e.add(edge, 1 + distance), e.add(inner, -distance);
}

void extend(int64_t m, int64_t n, Mode mode, Collector e) {
  int64_t r = modulo(m, 2 * n);
  switch (mode) {
    case zero: return;
    case constant: return e.add(m < 0 ? 0 : n - 1, 1);
    case periodic: return e.add(modulo(m, n), 1);
    case periodization: return e.add(std::min(modulo(m, n + n % 2), n - 1), 1);
    case symmetric: return e.add(r < n ? r : 2 * n - 1 - r, 1);
    case antisymmetric: return e.add(r < n ? r : 2 * n - 1 - r, r < n ? 1 : -1);
    case reflect: r = modulo(m, 2 * n - 2); return e.add(r < n ? r : 2 * n - 2 - r, 1);
    case antireflect: return extend_antireflect(m, n, e);
    case smooth: return extend_smooth(m, n, e);
  }
}

struct Term {
  int64_t source;
  double weight0, weight1;
};

void accumulate(std::vector<Term>& terms, int64_t source, double w0, double w1) {
  for (Term& t : terms)
    if (t.source == source) {
      t.weight0 += w0, t.weight1 += w1;
      return;
    }
  terms.push_back({source, w0, w1});
}

// Small weights first: what a sum rounds off grows with the partial sums. One order serves both
// outputs, so it goes by the weights of both; what only one of them needs comes before, as a longer
// filter reaches further than a shorter one by its ends, which are small.
template <class T>
void append(Sums<T>& all, std::vector<Term> terms) {
  std::stable_sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
    return a.weight0 * a.weight0 + a.weight1 * a.weight1 <
           b.weight0 * b.weight0 + b.weight1 * b.weight1;
  });
  Sum sum{static_cast<int64_t>(all.source.size()), 0, 0, 0};
  for (int part = 0; part < 3; ++part)
    for (const Term& t : terms) {
      bool in0 = t.weight0 != 0, in1 = t.weight1 != 0;
      if (part == 0 ? !(in0 && !in1) : part == 1 ? !(in1 && !in0) : !(in0 && in1)) continue;
      all.source.push_back(t.source);
      all.weight0.push_back(static_cast<T>(t.weight0));
      all.weight1.push_back(static_cast<T>(t.weight1));
      ++(part == 0 ? sum.only0 : part == 1 ? sum.only1 : sum.both);
    }
  all.sums.push_back(sum);
  all.most = std::max(all.most, sum.count());
}

// For each o, the samples that its window covers, borders included.
std::vector<std::vector<Term>> windows(const Axis& axis) {
  std::vector<Fill> border = fills(axis);
  std::vector<std::vector<Term>> found(axis.length);
  for (int64_t o = 0; o < axis.length; ++o)
    for (int64_t t = axis.taps() - 1; t >= 0; --t) {  // the order that rounds least
      int64_t j = 2 * o + t, sample = j - axis.before;
      if (axis.lo[t] == 0 && axis.hi[t] == 0) continue;
      if (sample >= 0 && sample < axis.n) {
        accumulate(found[o], sample, axis.lo[t], axis.hi[t]);
        continue;
      }
      auto f = std::lower_bound(border.begin(), border.end(), j,
                                [](const Fill& a, int64_t to) { return a.to < to; });
      for (; f != border.end() && f->to == j; ++f)
        accumulate(found[o], f->from, f->weight * axis.lo[t], f->weight * axis.hi[t]);
    }
  return found;
}

}  // namespace

std::vector<Fill> fills(const Axis& axis) {
  std::vector<Fill> found;
  for (int64_t j = 0; j < axis.extended(); ++j) {
    if (j == axis.before) j += axis.n;
    if (j < axis.extended()) extend(j - axis.before, axis.n, axis.mode, {found, j});
  }
  return found;
}

template <class T>
Sums<T> line_down(const Axis& axis) {
  std::vector<Term> terms;
  for (int64_t t = axis.taps() - 1; t >= 0; --t) terms.push_back({t, axis.lo[t], axis.hi[t]});
  Sums<T> sums;
  append(sums, terms);
  return sums;
}

template <class T>
Sums<T> line_up(const Axis& axis) {
  std::vector<Term> terms;
  int64_t half = axis.taps() / 2;
  for (int64_t m = 0; m < half; ++m) terms.push_back({m, axis.lo[2 * m], axis.lo[2 * m + 1]});
  for (int64_t m = 0; m < half; ++m)
    terms.push_back({half + m, axis.hi[2 * m], axis.hi[2 * m + 1]});
  Sums<T> sums;
  append(sums, terms);
  return sums;
}

template <class T>
Sums<T> rows_down(const Axis& axis) {
  Sums<T> sums;
  for (const auto& terms : windows(axis)) append(sums, terms);
  return sums;
}

template <class T>
Sums<T> rows_up(const Axis& axis) {
  int64_t q0 = axis.before / 2, q1 = (axis.before + axis.n - 1) / 2;
  std::vector<std::vector<Term>> pairs(q1 - q0 + 1);
  auto down = windows(axis);
  for (int band = 0; band < 2; ++band)
    for (int64_t k = 0; k < axis.length; ++k)
      for (const Term& t : down[k]) {
        int64_t j = t.source + axis.before;
        double w = band ? t.weight1 : t.weight0;
        if (w != 0) accumulate(pairs[j / 2 - q0], 2 * k + band, j % 2 ? 0 : w, j % 2 ? w : 0);
      }
  Sums<T> sums;
  for (const auto& terms : pairs) append(sums, terms);
  return sums;
}

template Sums<float> line_down(const Axis&);
template Sums<double> line_down(const Axis&);
template Sums<float> line_up(const Axis&);
template Sums<double> line_up(const Axis&);
template Sums<float> rows_down(const Axis&);
template Sums<double> rows_down(const Axis&);
template Sums<float> rows_up(const Axis&);
template Sums<double> rows_up(const Axis&);

}  // namespace rightfast
