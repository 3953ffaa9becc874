// Reading a plan. Its numbers are checked here once more: whatever comes, no memory is overrun.
#include "plan.h"

#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>

#ifdef __unix__
#include <unistd.h>
#endif

namespace rightfast {
namespace {

struct Reader {
  const char* at;
  int64_t next() {
    char* end;
    const int64_t number = std::strtoll(at, &end, 10);
    STD_TORCH_CHECK(end != at, "expected another number in the plan, got '", at, "'");
    at = end;
    return number;
  }
  double next_double() {
    const int64_t bits = next();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

// Dimension and filters of each axis; lengths follow for each level.
struct Filtered {
  int64_t dim;
  Axis axis;
};

std::vector<Filtered> read_axes(Reader& in, int64_t count, int64_t ndim) {
  std::vector<Filtered> found;
  for (int64_t a = 0; a < count; ++a) {
    const int64_t dim = in.next() + ndim, mode = in.next(), before = in.next(), f = in.next();
    STD_TORCH_CHECK(dim >= (a ? found.back().dim + 1 : 0) && dim < ndim,
                    "expected ascending dimensions below ", ndim, ", got ", dim);
    STD_TORCH_CHECK(mode >= 0 && mode <= antireflect, "expected a mode 0 to 8, got ", mode);
    STD_TORCH_CHECK(f >= 2 && f % 2 == 0, "expected two filters of an even number of taps, got ",
                    f);
    STD_TORCH_CHECK(before >= 0 && before < f, "expected a border below ", f, ", got ", before);
    Axis axis{0, 0, before, static_cast<Mode>(mode), {}, {}};
    for (auto* filter : {&axis.lo, &axis.hi})
      for (int64_t t = 0; t < f; ++t) filter->push_back(in.next_double());
    found.push_back({dim, std::move(axis)});
  }
  return found;
}

void check_lengths(const Axis& axis) {
  const bool mirror = axis.mode == reflect || axis.mode == antireflect;
  STD_TORCH_CHECK(axis.n >= (mirror ? 2 : 1) && axis.n < (int64_t{1} << 40),
                  "expected samples to extend, got ", axis.n);
  STD_TORCH_CHECK(axis.length >= 1 && axis.extended() >= axis.before + axis.n &&
                      axis.length <= axis.n + axis.taps(),
                  "expected as many coefficients as ", axis.n, " samples give, got ", axis.length);
}

template <class T>
void fill_dims(Level<T>& level, const std::vector<Filtered>& axes, int64_t first) {
  int64_t inner = 1, inner_band = 1, filtered = 0;
  std::vector<Dim<T>> inwards;
  for (int64_t d = static_cast<int64_t>(level.shape.size()) - 1; d >= 0; --d) {
    const int64_t n = level.shape[d], length = level.bands[d];
    auto a = std::find_if(axes.begin(), axes.end(), [&](auto& f) { return f.dim == d + first; });
    if (a == axes.end() && filtered && !inwards.back().axis) {
      inwards.back().size *= n, inwards.back().bands *= n;  // two plain dimensions are one
    } else if (a != axes.end() || filtered) {
      Dim<T> dim{n, length, inner, inner_band};
      dim.axis = a == axes.end() ? nullptr : &level.axes[a - axes.begin()];
      dim.filtered = static_cast<int>(filtered += dim.axis ? 1 : 0);
      inwards.push_back(std::move(dim));
    }
    inner *= n, inner_band *= length;
  }
  level.elements = inner, level.band_elements = inner_band;
  level.dims.assign(std::make_move_iterator(inwards.rbegin()),
                    std::make_move_iterator(inwards.rend()));
}

template <class T>
void fill_tables(Dim<T>& dim, bool down) {
  if (!dim.is_line()) {
    dim.rows = down ? rows_down<T>(*dim.axis) : rows_up<T>(*dim.axis);
    return;
  }
  dim.border = Border<T>(*dim.axis);
  dim.line = down ? line_down<T>(*dim.axis) : line_up<T>(*dim.axis);
}

// Bytes of the last cache; more than most have where the system does not tell.
size_t caches() {
  size_t bytes = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  bytes = std::max<long>(0, sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
  return bytes ? bytes : size_t{1} << 26;
}

// The dimensions in front, then the others.
Shape whole(const std::vector<int64_t>& shape, int64_t front, const std::vector<int64_t>& rest) {
  Shape found{{shape.begin(), shape.begin() + front}, {}, 1};
  found.sizes.insert(found.sizes.end(), rest.begin(), rest.end());
  found.strides.resize(found.sizes.size());
  for (size_t d = found.sizes.size(); d-- > 0; found.elements *= found.sizes[d])
    found.strides[d] = found.elements;
  return found;
}

template <class T>
Plan<T> read_plan(const std::vector<int64_t>& shape, const std::string& text, bool down) {
  Reader in{text.c_str()};
  Plan<T> plan{};
  plan.axes = in.next();
  const int64_t depth = in.next(), ndim = static_cast<int64_t>(shape.size());
  STD_TORCH_CHECK(plan.axes >= 1 && plan.axes <= 6 && plan.axes <= ndim,
                  "expected 1 to 6 axes of ", ndim, " dimensions, got ", plan.axes);
  STD_TORCH_CHECK(depth >= 1, "expected at least one level, got ", depth);
  const std::vector<Filtered> axes = read_axes(in, plan.axes, ndim);
  const int64_t first = axes[0].dim;
  plan.blocks = 1;
  for (int64_t d = 0; d < first; ++d) plan.blocks *= shape[d];
  for (int64_t l = 0; l < depth; ++l) {
    Level<T> level{};
    level.shape.assign(shape.begin() + first, shape.end());
    level.bands = level.shape;
    for (const Filtered& f : axes) {
      level.axes.push_back(f.axis);
      Axis& axis = level.axes.back();
      axis.n = level.shape[f.dim - first] = in.next();
      axis.length = level.bands[f.dim - first] = in.next();
      check_lengths(axis);
    }
    level.present = in.next();
    plan.levels.push_back(std::move(level));
    fill_dims(plan.levels.back(), axes, first);
  }
  for (Level<T>& level : plan.levels) {
    for (Dim<T>& dim : level.dims)
      if (dim.axis) fill_tables(dim, down);
    mark_haar(level.dims);
    mark_lifting(level.dims, down);
  }
  // Signal and bands: the finest level writes them (three quarters of the bands of two axes).
  if (2 * plan.blocks * plan.levels[0].elements * sizeof(T) > caches())
    for (Dim<T>& dim : plan.levels[0].dims) dim.past_caches = true;
  plan.signal = whole(shape, first, plan.levels[0].shape);
  for (int64_t l = depth; l-- > 0;)
    for (int64_t k = l + 1 == depth ? 0 : 1; k < plan.bands(); ++k)
      if (plan.levels[l].has(k)) plan.present.push_back(whole(shape, first, plan.levels[l].bands));
  return plan;
}

constexpr size_t kKept = 32;

template <class T>
struct Kept {
  std::vector<int64_t> shape;
  std::string text;
  bool down;
  std::shared_ptr<const Plan<T>> plan;
};

}  // namespace

template <class T>
std::shared_ptr<const Plan<T>> planned(const std::vector<int64_t>& shape,
                                       const std::string& text, bool down) {
  static std::mutex mutex;
  static std::deque<Kept<T>> kept;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (const Kept<T>& k : kept)
      if (k.down == down && k.shape == shape && k.text == text) return k.plan;
  }
  auto plan = std::make_shared<const Plan<T>>(read_plan<T>(shape, text, down));
  std::lock_guard<std::mutex> lock(mutex);
  kept.push_front({shape, text, down, plan});
  if (kept.size() > kKept) kept.pop_back();
  return plan;
}

template std::shared_ptr<const Plan<float>> planned(const std::vector<int64_t>&,
                                                    const std::string&, bool);
template std::shared_ptr<const Plan<double>> planned(const std::vector<int64_t>&,
                                                     const std::string&, bool);

}  // namespace rightfast
