// Which filters are lifted, and how.
#include <algorithm>
#include <cmath>

#include "lifting.h"
#include "tables.h"

namespace rightfast {
namespace {

// Banks of Cohen, Daubechies and Feauveau: the steps of a decomposition, without factors. Their duals
// (rbio) have the same with the other sign.
struct Bank {
  int reach, centred;
  double shorter, longer[kLiftReach + 1];
};

constexpr Bank kBanks[] = {
    {1, 0, -1.0 / 2, {1.0 / 4}},                         // bior2.2, the 5/3 pair of JPEG 2000
    {2, 0, -1.0 / 2, {-3.0 / 64, 19.0 / 64}},            // bior2.4
    {1, 1, -1, {-1.0 / 16, 1.0 / 2}},                    // bior1.3
    {2, 1, -1, {3.0 / 256, -11.0 / 128, 1.0 / 2}},       // bior1.5
};

using Taps = std::vector<double>;

// The filters of both bands without factors, that of u around sample `c` and that of v around `d`.
void filters_of(const Bank& bank, int64_t c, int64_t d, Taps& of_u, Taps& of_v) {
  const auto put_u = [&](Taps& taps, int64_t at, double weight) {
    taps[at] += weight;
    taps[at + 1] += weight * bank.shorter;
    if (!bank.centred) taps[at - 1] += weight * bank.shorter;
  };
  put_u(of_u, c, 1);
  of_v[d] += 1;
  for (int k = 0; k < bank.reach; ++k) {
    const double weight = bank.longer[k];
    const int64_t far = 2 * (bank.reach - k), at = bank.centred ? c : d;
    put_u(of_v, at - far + !bank.centred, weight);
    put_u(of_v, at + far - !bank.centred, bank.centred ? -weight : weight);
  }
  if (bank.centred) put_u(of_v, c, bank.longer[bank.reach]);
}

// Whether `taps` is `plain` times a factor, zero where that is, and its own mirror image but for
// signs.
bool is_multiple(const Taps& taps, const Taps& plain, double& factor) {
  const auto is_tap = [](double tap) { return tap != 0; };
  auto left = std::find_if(taps.begin(), taps.end(), is_tap);
  auto right = std::find_if(taps.rbegin(), taps.rend(), is_tap);
  for (; left != taps.end() && right != taps.rend(); ++left, ++right)
    if (std::abs(*left) != std::abs(*right)) return false;
  const auto largest = std::max_element(plain.begin(), plain.end(), [](double a, double b) {
    return std::abs(a) < std::abs(b);
  });
  factor = taps[largest - plain.begin()] / *largest;
  for (size_t t = 0; t < taps.size(); ++t)
    if (is_tap(taps[t]) != is_tap(plain[t]) ||
        !(std::abs(taps[t] - factor * plain[t]) <= 4e-15 * std::abs(factor)))
      return false;
  return true;
}

// Whether the bank gives the filters of an axis, that of band u around sample c. A synthesis by them
// is the transpose; there a centred pair is (v, u), which makes it the mirror image.
bool matches(const Bank& bank, const Axis& axis, bool down, int u, int64_t c, LiftSteps& steps) {
  const int64_t all = axis.taps();
  Taps of_u(all), of_v(all), taps_u = u ? axis.hi : axis.lo, taps_v = u ? axis.lo : axis.hi;
  filters_of(bank, c, all - 1 - c, of_u, of_v);
  if (bank.centred && !down)
    for (Taps* taps : {&taps_u, &taps_v}) std::reverse(taps->begin(), taps->end());
  return is_multiple(taps_u, of_u, steps.scale_u) && is_multiple(taps_v, of_v, steps.scale_v);
}

// Up, factors come last as well, which changes the steps between them.
bool find(Bank bank, const Axis& axis, bool down, LiftSteps& steps) {
  const int n = bank.reach;
  if (axis.taps() != 4 * n + 2) return false;
  for (int u : {0, 1})
    for (int second = 0; second <= !bank.centred; ++second) {
      if (!matches(bank, axis, down, u, 2 * n + second, steps)) continue;
      const bool u_second = bank.centred ? !down : second;
      steps.reach = n, steps.centred = bank.centred;
      steps.u = u, steps.first = u_second ? 1 - u : u;
      steps.shift = u_second == down ? (down ? 1 : -1) : 0;
      steps.back = steps.shift != 0;
      const double ratio = down ? 1 : steps.scale_u / steps.scale_v;
      steps.shorter = bank.shorter * ratio;
      for (int k = 0; k <= n; ++k) steps.longer[k] = bank.longer[k] / ratio;
      return true;
    }
  return false;
}

}  // namespace

bool find_steps(const Axis& axis, bool down, LiftSteps& steps) {
  for (Bank bank : kBanks) {
    if (find(bank, axis, down, steps)) return true;
    bank.shorter = -bank.shorter;
    for (double& weight : bank.longer) weight = -weight;
    if (find(bank, axis, down, steps)) return true;
  }
  return false;
}

template <class T>
Lifting<T> LiftSteps::without_factors() const {
  const int kind = centred ? 2 : back;
  Lifting<T> how{kind * kLiftReach + reach - 1, static_cast<T>(shorter), {}, 1, 1};
  for (int k = 0; k <= reach; ++k) how.longer[k] = static_cast<T>(longer[k]);
  return how;
}

template <class T>
Lifting<T> LiftSteps::with_factors(bool down, double more) const {
  LiftSteps all = *this;
  const double first = scale_u * more, second = scale_v / scale_u;
  all.shorter *= down ? first : second;
  for (double& weight : all.longer) weight *= down ? second : first;
  Lifting<T> how = all.without_factors<T>();
  how.scale_u = static_cast<T>(first), how.scale_v = static_cast<T>(scale_v * more);
  return how;
}

template Lifting<float> LiftSteps::without_factors() const;
template Lifting<double> LiftSteps::without_factors() const;
template Lifting<float> LiftSteps::with_factors(bool, double) const;
template Lifting<double> LiftSteps::with_factors(bool, double) const;

}  // namespace rightfast
