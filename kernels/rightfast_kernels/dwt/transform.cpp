// Several levels: each block goes through all of them while its low band is in the caches.
#include <algorithm>

#include "plan.h"

namespace rightfast {
namespace {

constexpr int64_t kWorth = 1 << 17;  // multiplications that are worth a second thread

// dst[...] = src[...] where both are, 0 where only dst is.
template <class T>
void copy_box(const int64_t* from, const T* src, const int64_t* to, T* dst, size_t dims) {
  if (dims == 0) {
    *dst = *src;
    return;
  }
  int64_t inner_from = 1, inner_to = 1;
  for (size_t d = 1; d < dims; ++d) inner_from *= from[d], inner_to *= to[d];
  const int64_t both = std::min(*from, *to);
  for (int64_t i = 0; i < both; ++i)
    copy_box(from + 1, src + i * inner_from, to + 1, dst + i * inner_to, dims - 1);
  std::fill(dst + both * inner_to, dst + *to * inner_to, T(0));
}

template <class T>
class Block {
 public:
  Block(const Plan<T>& plan, Arena& arena)
      : arena_(arena), scope_(arena), plan_(plan), depth_(plan.levels.size()) {
    for (const Level<T>& level : plan.levels) {
      lows_.push_back(arena_.take<T>(level.band_elements));
      signals_.push_back(arena_.take<T>(&level == &plan.levels[0] ? 0 : level.elements));
    }
  }

  void down(int64_t block, const T* x, T* low, const std::vector<T*>& details,
            Spread spread) {
    size_t end = details.size();
    for (size_t l = 0; l < depth_; ++l) {
      const Level<T>& level = plan_.levels[l];
      const bool deepest = l + 1 == depth_;
      T* bands[kMost] = {deepest && low ? low + block * level.band_elements : lows_[l]};
      size_t at = end -= present(level);
      for (int64_t k = 1; k < plan_.bands(); ++k)
        bands[k] = level.has(k) ? details[at++] + block * level.band_elements : spare();
      level_down(level.dims.data(), x, bands, arena_, spread);
      if (!deepest) x = fitted(level.bands, lows_[l], plan_.levels[l + 1].shape, l + 1);
    }
  }

  void up(int64_t block, const T* low, const std::vector<const T*>& details, T* x,
          Spread spread) {
    const Level<T>& last = plan_.levels.back();
    size_t at = 0;
    if (low) low += block * last.band_elements;
    for (size_t l = depth_; l-- > 0;) {
      const Level<T>& level = plan_.levels[l];
      const T* bands[kMost] = {low ? low : zeros()};
      for (int64_t k = 1; k < plan_.bands(); ++k)
        bands[k] = level.has(k) ? details[at++] + block * level.band_elements : zeros();
      T* out = l ? signals_[l] : x + block * level.elements;
      level_up(level.dims.data(), bands, out, arena_, spread);
      if (l) low = trimmed(level.shape, out, plan_.levels[l - 1].bands, l - 1);
    }
  }

 private:
  int64_t present(const Level<T>& level) const {
    int64_t count = 0;
    for (int64_t k = 1; k < plan_.bands(); ++k) count += level.has(k);
    return count;
  }

  // Of short signals deeper bands are the longer ones.
  int64_t spare_elements() const {
    int64_t most = 0;
    for (const Level<T>& level : plan_.levels) most = std::max(most, level.band_elements);
    return most;
  }

  T* spare() {
    if (!spare_) spare_ = arena_.take<T>(spare_elements());
    return spare_;
  }

  const T* zeros() {
    if (!spare_) std::fill_n(spare(), spare_elements(), T(0));
    return spare_;
  }

  const T* fitted(const std::vector<int64_t>& have, const T* low, const std::vector<int64_t>& want,
                  size_t l) {
    if (have == want) return low;
    copy_box(have.data(), low, want.data(), signals_[l], have.size());
    return signals_[l];
  }

  const T* trimmed(const std::vector<int64_t>& have, const T* x, const std::vector<int64_t>& want,
                   size_t l) {
    if (have == want) return x;
    copy_box(have.data(), x, want.data(), lows_[l], have.size());
    return lows_[l];
  }

  Arena& arena_;
  Arena::Scope scope_;
  const Plan<T>& plan_;
  size_t depth_;
  std::vector<T*> lows_, signals_;
  T* spare_ = nullptr;  // absent bands: written to and not read, or zeros
};

// Calls f(block, its memory, how to spread its work): blocks in several threads where there are
// enough of them, else each block's own work. Every number is computed alike either way.
template <class T, class F>
void each_block(const Plan<T>& plan, const F& f) {
  const int64_t threads = torch::stable::get_num_threads(), blocks = plan.blocks;
  const int64_t work = blocks * plan.levels[0].elements * plan.levels[0].axes[0].taps();
  const bool share = threads > 1 && work >= kWorth;
  const bool by_block = share && (blocks >= 4 * threads || blocks % threads == 0);
  Spread{by_block}(blocks, Arena::of_this_thread(), [&](int64_t begin, int64_t end, Arena& arena) {
    Block<T> memory(plan, arena);
    for (int64_t b = begin; b < end; ++b) f(b, memory, Spread{share && !by_block});
  });
}

}  // namespace

template <class T>
void transform_down(const Plan<T>& plan, const T* x, T* low, const std::vector<T*>& details) {
  each_block(plan, [&](int64_t b, Block<T>& memory, Spread spread) {
    memory.down(b, x + b * plan.levels[0].elements, low, details, spread);
  });
}

template <class T>
void transform_up(const Plan<T>& plan, const T* low, const std::vector<const T*>& details, T* x) {
  each_block(plan, [&](int64_t b, Block<T>& memory, Spread spread) {
    memory.up(b, low, details, x, spread);
  });
}

template void transform_down(const Plan<float>&, const float*, float*, const std::vector<float*>&);
template void transform_down(const Plan<double>&, const double*, double*,
                             const std::vector<double*>&);
template void transform_up(const Plan<float>&, const float*, const std::vector<const float*>&,
                           float*);
template void transform_up(const Plan<double>&, const double*, const std::vector<const double*>&,
                           double*);

}  // namespace rightfast
