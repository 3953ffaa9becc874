// Lifting of the 5/3 pair: a part of loops_body.h.
//
// Pairs of numbers (first, second) become a low and a high one by two steps (Daubechies and
// Sweldens 1998). Either the second ones are lifted first,
//
//   second'[i] = second[i] + step0 (first[i] + first[i + 1])
//   first'[i]  = first[i] + step1 (second'[i - 1] + second'[i]),
//
// or, the same backwards, the first ones are. A product with a factor follows. What a step needs of
// a neighbour comes by a permute from the vector before or behind, so that each number is read once.

// `a`, one lane on: its second to last lanes, then the first of b.
template <class T, int W, class V>
ALWAYS_INLINE V ahead(V a, V b) {
  constexpr auto all = std::make_integer_sequence<int, W>();
  if constexpr (W == 1) return b;
  if constexpr (W * sizeof(T) == 32) b = pick<middle, T, W>(a, b, all);
  return pick<nexts, T, W>(a, b, all);
}

// `b`, one lane back: the last lane of a, then all of b but its last.
template <class T, int W, class V>
ALWAYS_INLINE V behind(V a, V b) {
  constexpr auto all = std::make_integer_sequence<int, W>();
  if constexpr (W == 1) return a;
  if constexpr (W * sizeof(T) == 32) a = pick<middle, T, W>(a, b, all);
  return pick<lasts, T, W>(a, b, all);
}

// Along a line, a vector of pairs at a time: `move` lifts those at hand and takes the next ones.
template <class T, int W, bool second_first>
struct Lifter {
  using V = typename Lanes<T, W>::Vector;
  T step0, step1;
  V first, second, lifted;  // lifted: of the vector before if the second ones come first

  // At hand are `a` and `b`; the pair before them is (a0, b0).
  ALWAYS_INLINE void start(V a, V b, T a0, T b0) {
    V before = {};
    before[W - 1] = second_first ? b0 + step0 * (a0 + a[0]) : b0;
    first = a, second = b;
    lifted = before;
    if constexpr (!second_first) lifted = first + step0 * (behind<T, W>(before, second) + second);
  }

  ALWAYS_INLINE void move(V next0, V next1, V& out0, V& out1) {
    if constexpr (second_first) {
      out1 = second + step0 * (first + ahead<T, W>(first, next0));
      out0 = first + step1 * (behind<T, W>(lifted, out1) + out1);
      lifted = out1;
    } else {
      const V next = next0 + step0 * (behind<T, W>(second, next1) + next1);
      out0 = lifted;
      out1 = second + step1 * (lifted + ahead<T, W>(lifted, next));
      lifted = next;
    }
    first = next0, second = next1;
  }
};

// Where pairs lie: in turn, from `first` on, or in two runs.
template <bool in_turn, class T>
struct Pairs {
  T *first, *second;
  T* at0(int64_t i) const { return in_turn ? first + 2 * i : first + i; }
  T* at1(int64_t i) const { return in_turn ? first + 2 * i + 1 : second + i; }

  template <int W, class V>
  ALWAYS_INLINE void take(int64_t i, V& a, V& b) const {
    using U = std::remove_const_t<T>;
    a = once(load<U, W>(at0(i)));
    b = once(load<U, W>(in_turn ? at0(i) + W : at1(i)));
    if constexpr (in_turn) deal<U, W>(a, b);
  }

  // Only the first lane: what follows it may lie past the end of memory.
  template <class V>
  ALWAYS_INLINE void take_one(int64_t i, V& a, V& b) const {
    a = b = V{};
    a[0] = *at0(i), b[0] = *at1(i);
  }

  template <int W, class V>
  ALWAYS_INLINE void give(int64_t i, V a, V b) const {
    T *place0 = at0(i), *place1 = in_turn ? place0 + W : at1(i);
    if constexpr (in_turn) riffle<T, W>(a, b);
    fetch(place0), fetch(place1);
    store<T, W>(place0, a);
    store<T, W>(place1, b);
  }
};

template <class T, int W, bool second_first, bool in, bool out>
void lift_pairs(const Lifting<T>& how, Pairs<in, const T> from, Pairs<out, T> to, int64_t begin,
                int64_t end) {
  using V = typename Lanes<T, W>::Vector;
  if constexpr (W > 1)
    if (end - begin < W) return lift_pairs<T, W / 2, second_first>(how, from, to, begin, end);
  Lifter<T, W, second_first> lifter{how.step0, how.step1};
  const T scale0 = how.scale0, scale1 = how.scale1;
  V a, b, low, high;
  for (int64_t i = begin; i < end;) {
    from.template take<W>(i, a, b);
    lifter.start(a, b, *from.at0(i - 1), *from.at1(i - 1));
    for (; i + W <= end; i += W) {
      if (i + 2 * W <= end + 1) from.template take<W>(i + W, a, b);
      else from.take_one(i + W, a, b);
      lifter.move(a, b, low, high);
      to.template give<W>(i, scale0 * low, scale1 * high);
    }
    if (i < end) i = end - W;  // again in part: no output is an input
  }
}

template <class T, int W, bool in, bool out>
void lift(const Lifting<T>& how, const T* first, const T* second, T* to0, T* to1, int64_t begin,
          int64_t end) {
  const Pairs<in, const T> from{first, second};
  const Pairs<out, T> to{to0, to1};
  how.second_first ? lift_pairs<T, W, true>(how, from, to, begin, end)
                   : lift_pairs<T, W, false>(how, from, to, begin, end);
}

// Across rows: the lifted row, and the other one.
template <class T, int W, class V>
ALWAYS_INLINE void across(const LiftedRows<T>& r, T step0, T step1, int64_t i, V& lifted, V& old,
                          V& other) {
  const V x = once(load<T, W>(r.outer0 + i));
  old = once(load<T, W>(r.old + i));
  lifted = load<T, W>(r.centre + i) + step0 * (x + load<T, W>(r.outer1 + i));
  other = x + step1 * (old + lifted);
}

template <class T, int W>
void lift_rows(const Lifting<T>& how, const LiftedRows<T>& rows, T* to, int64_t begin, int64_t end) {
  using V = typename Lanes<T, W>::Vector;
  if constexpr (W > 1)
    if (end - begin < W) return lift_rows<T, W / 2>(how, rows, to, begin, end);
  const LiftedRows<T> r = rows;
  const T step0 = how.step0, step1 = how.step1;
  V lifted, old, other;
  for (int64_t i = begin; i < end; i += W) {
    if (i + W > end) i = end - W;
    across<T, W>(r, step0, step1, i, lifted, old, other);
    store<T, W>(r.fresh + i, lifted);
    store<T, W>(to + i, other);
  }
}

// W pairs of two rows, x of the low band and y of the high one, lifted across. Down, a row has its
// pairs in turn; up, in two runs, which are two rows to lift across.
template <class T, int W, bool second_first, bool down, class V>
ALWAYS_INLINE void pairs_across(const Lifting<T>& how, const LiftedRows<T>* rows, int64_t i,
                                V (&x)[2], V (&y)[2]) {
  V lifted, old, other;
  for (int v = 0; v < 2; ++v) {
    const LiftedRows<T>& r = rows[down ? 0 : v];
    const int64_t at = down ? 2 * i + v * W : i;
    across<T, W>(r, how.step0, how.step1, at, lifted, old, other);
    store<T, W>(r.fresh + at, lifted);
    x[v] = second_first ? other : old;
    y[v] = second_first ? lifted : other;
  }
  if constexpr (down) deal<T, W>(x[0], x[1]), deal<T, W>(y[0], y[1]);
}

// Only the first lane.
template <class T, int W, bool second_first, bool down, class V>
ALWAYS_INLINE void one_across(const Lifting<T>& how, const LiftedRows<T>* rows, int64_t i, V (&x)[2],
                              V (&y)[2]) {
  typename Lanes<T, 1>::Vector x1[2], y1[2];
  pairs_across<T, 1, second_first, down>(how, rows, i, x1, y1);
  for (int v = 0; v < 2; ++v) {
    x[v] = y[v] = V{};
    x[v][0] = x1[v][0], y[v][0] = y1[v][0];
  }
}

// Across rows and along them in one loop, W pairs or more.
template <class T, int W, bool second_first, bool down>
void lift_plane_of(const Lifting<T>& how, const Lifting<T>* along, const LiftedRows<T>* rows,
                   T* const* out, int64_t begin, int64_t end) {
  const LiftedRows<T> r[2] = {rows[0], rows[down ? 0 : 1]};
  const Lifting<T> steps = how;
  const T scale[] = {along[0].scale0, along[0].scale1, along[1].scale0, along[1].scale1};
  const Pairs<!down, T> to[2] = {{out[0], out[1]}, {out[2], out[3]}};
  Lifter<T, W, second_first> low{along[0].step0, along[0].step1};
  Lifter<T, W, second_first> high{along[1].step0, along[1].step1};
  typename Lanes<T, W>::Vector x0[2], y0[2], x[2], y[2], a, b;
  for (int64_t i = begin; i < end;) {
    one_across<T, W, second_first, down>(steps, r, i - 1, x0, y0);
    pairs_across<T, W, second_first, down>(steps, r, i, x, y);
    low.start(x[0], x[1], x0[0][0], x0[1][0]);
    high.start(y[0], y[1], y0[0][0], y0[1][0]);
    for (; i + W <= end; i += W) {
      if (i + 2 * W <= end + 1) pairs_across<T, W, second_first, down>(steps, r, i + W, x, y);
      else one_across<T, W, second_first, down>(steps, r, i + W, x, y);
      low.move(x[0], x[1], a, b);
      to[0].template give<W>(i, scale[0] * a, scale[1] * b);
      high.move(y[0], y[1], a, b);
      to[1].template give<W>(i, scale[2] * a, scale[3] * b);
    }
    if (i < end) i = end - W;
  }
}

template <class T, int W, bool down>
void lift_plane(const Lifting<T>& how, const Lifting<T>* along, const LiftedRows<T>* rows,
                T* const* out, int64_t begin, int64_t end) {
  how.second_first ? lift_plane_of<T, W, true, down>(how, along, rows, out, begin, end)
                   : lift_plane_of<T, W, false, down>(how, along, rows, out, begin, end);
}
