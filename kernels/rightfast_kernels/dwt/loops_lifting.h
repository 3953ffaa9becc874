// Lifting in two steps (Daubechies and Sweldens 1998): a part of loops_body.h.
//
// Pairs of numbers (u, v) become a number of either band: down,
//
//   u'[i] = scale_u u[i] + shorter(v, i),   then   v'[i] = scale_v v[i] + longer(u', i),
//
// and up the same with `longer` in the first step and `shorter` in the second. There are two kinds.
// Steps between samples, as of bior2.2 (N = 1) and bior2.4 (N = 2), are
//
//   shorter(x, i) = a (x[i - 1] + x[i])
//   longer(x, i) = sum_k b[k] (x[i - m] + x[i + m + 1]),   m = N - 1 - k,
//
// and centred ones (C), as of bior1.3 and bior1.5,
//
//   shorter(x, i) = a x[i]
//   longer(x, i) = sum_k b[k] (x[i - m] - x[i + m]) + b[N] x[i],   m = N - k.
//
// Where u is the first of a pair down, and the second up, each step needs one vector ahead and no
// more. Where it is not, the same holds from the right to the left (`back`).
//
// Along a line, sums begin with the small weights and end with the number itself and its factor,
// which leaves as few rounding errors as a sum of taps. Across rows there are no factors: those of
// both axes come along the line.

// Lanes k to k + W of a and b in a row.
template <int k, class T, int W, class V>
ALWAYS_INLINE V slide(V a, V b) {
  constexpr auto all = std::make_integer_sequence<int, W>();
  constexpr int half = W / 2;
  if constexpr (k == 0) return a;
  else if constexpr (k == W) return b;
  else if constexpr (W * sizeof(T) != 32) return pick<Order(slid + k), T, W>(a, b, all);
  else {
    const V m = pick<middle, T, W>(a, b, all);
    if constexpr (k < half) return pick<Order(slid + k), T, W>(a, m, all);
    else if constexpr (k == half) return m;
    else return pick<Order(slid + k - half), T, W>(m, b, all);
  }
}

// Lanes of b moved on by k, which may be negative, with those of a before and c behind; or, back, the
// other way round.
template <bool back, int k, class T, int W, class V>
ALWAYS_INLINE V lanes(V a, V b, V c) {
  if constexpr (back) return lanes<false, -k, T, W>(c, b, a);
  else if constexpr (k < 0) return slide<W + k, T, W>(a, b);
  else return slide<k, T, W>(b, c);
}

template <int N, bool C>
struct Steps {
  static constexpr int count = 2 * N + C, middle = N - 1 + C;  // of what `longer` reads

  template <class T, class V>
  static ALWAYS_INLINE V shorter(const Lifting<T>& how, V sum, V before, V at) {
    if constexpr (C) return sum + how.shorter * at;
    else return sum + how.shorter * (before + at);
  }

  template <class T, class V>
  static ALWAYS_INLINE V longer(const Lifting<T>& how, V sum, const V* x) {
    for (int k = 0; k < N; ++k)
      sum += how.longer[k] * (C ? x[k] - x[count - 1 - k] : x[k] + x[count - 1 - k]);
    if constexpr (C) sum += how.longer[N] * x[middle];
    return sum;
  }

  // Along a line, from the vector `b` and its neighbours.
  template <bool back, class T, int W, class V, int... K>
  static ALWAYS_INLINE V longer(const Lifting<T>& how, V a, V b, V c,
                                std::integer_sequence<int, K...>) {
    const V x[] = {lanes<back, K - middle, T, W>(a, b, c)...};
    return longer(how, V{}, x);
  }
};

// Along a line, a vector of pairs at a time: `move` lifts those at hand and takes the next ones. Of
// what `start` gets as `before`, the N lanes next to those are read.
template <class T, int W, int N, bool C, bool back, bool down>
struct Lifter {
  using V = typename Lanes<T, W>::Vector;
  using S = Steps<N, C>;
  static constexpr int U = down == back, other = 1 - U;  // where u and v are in a pair
  Lifting<T> how;
  V old, now, own;  // down: u' before, u', v; up: v before, v, u
  V lifted;         // up: u' before

  ALWAYS_INLINE V shorter(V own, T scale, V a, V b) const {
    return scale * own + S::shorter(how, V{}, C ? b : lanes<back, -1, T, W>(a, b, b), b);
  }
  ALWAYS_INLINE V longer(V own, T scale, V a, V b, V c) const {
    constexpr auto all = std::make_integer_sequence<int, S::count>();
    return scale * own + S::template longer<back, T, W>(how, a, b, c, all);
  }

  ALWAYS_INLINE void start(const V (&before)[2], const V (&at)[2]) {
    if constexpr (down) {
      old = shorter(before[U], how.scale_u, before[other], before[other]);
      now = shorter(at[U], how.scale_u, before[other], at[other]);
      own = at[other];
    } else {
      old = before[other], now = at[other], own = at[U];
      lifted = C ? old : longer(before[U], how.scale_u, old, old, now);
    }
  }

  ALWAYS_INLINE void move(const V (&next)[2], V (&out)[2]) {
    if constexpr (down) {
      const V fresh = shorter(next[U], how.scale_u, own, next[other]);
      out[U] = now;
      out[other] = longer(own, how.scale_v, old, now, fresh);
      old = now, now = fresh, own = next[other];
    } else {
      out[U] = longer(own, how.scale_u, old, now, next[other]);
      out[other] = shorter(now, how.scale_v, lifted, out[U]);
      lifted = out[U], old = now, now = next[other], own = next[U];
    }
  }
};

// Where pairs lie: in turn, from `first` on, or in two runs.
template <bool in_turn, class T>
struct Pairs {
  T *first, *second;
  T* at0(int64_t i) const { return in_turn ? first + 2 * i : first + i; }

  template <int W, class V>
  ALWAYS_INLINE void take(int64_t i, V (&x)[1][2]) const {
    using U = std::remove_const_t<T>;
    x[0][0] = once(load<U, W>(at0(i)));
    x[0][1] = once(load<U, W>(in_turn ? at0(i) + W : second + i));
    if constexpr (in_turn) deal<U, W>(x[0][0], x[0][1]);
  }

  template <class U>
  void get(int64_t i, U (&x)[2]) const {
    x[0] = *at0(i), x[1] = in_turn ? at0(i)[1] : second[i];
  }
  void put(int64_t i, const T (&x)[2]) const { *at0(i) = x[0], (in_turn ? at0(i)[1] : second[i]) = x[1]; }

  template <int W, bool back, class V>
  ALWAYS_INLINE void give(int64_t i, V (&x)[2]) const {
    T *place0 = at0(i), *place1 = in_turn ? place0 + W : second + i;
    if constexpr (in_turn) riffle<T, W>(x[0], x[1]);
    fetch<back>(place0), fetch<back>(place1);
    store<T, W>(place0, x[0]);
    store<T, W>(place1, x[1]);
  }
};

// Pairs begin to end of R rows, W at a time, each row as `how` says. The pairs before the first and
// behind the last vector come by a vector that lies partly on them: nothing further out is read.
template <class T, int W, int N, bool C, bool back, bool down, int R, class From>
ALWAYS_INLINE void lift_rows(const Lifting<T>* how, const From& from, const Pairs<!down, T>* to,
                             int64_t begin, int64_t end) {
  // Between samples and with N = 1 both steps are alike: from the left to the right, then, as if up
  // were down.
  constexpr bool turn = back && N == 1 && !C, from_right = back && !turn;
  constexpr int on = from_right ? -1 : 1;
  typename Lanes<T, W>::Vector before[R][2], x[R][2], out[2];
  Lifter<T, W, N, C, from_right, down != turn> lifter[R];
  for (int r = 0; r < R; ++r) {
    lifter[r].how = how[r];
    if (turn) lifter[r].how.shorter = how[r].longer[0], lifter[r].how.longer[0] = how[r].shorter;
  }
  for (int64_t left = end - begin; left > 0;) {
    int64_t i = from_right ? begin + left - W : end - left;
    from.template take<W>(i - on * N, before);
    from.template take<W>(i, x);
    for (int r = 0; r < R; ++r) {
      for (auto& v : before[r]) v = slide<from_right ? W - N : N, T, W>(v, v);
      lifter[r].start(before[r], x[r]);
    }
    for (; left >= W; left -= W, i += on * W) {
      const bool inside = left + N >= 2 * W;
      from.template take<W>(i + on * (inside ? W : N), x);
      for (int r = 0; r < R; ++r) {
        if (!inside)
          for (auto& v : x[r]) v = slide<from_right ? N : W - N, T, W>(v, v);
        lifter[r].move(x[r], out);
        to[r].template give<W, from_right>(i, out);
      }
    }
    if (left > 0) left = W;  // again in part: no output is an input
  }
}

// So few pairs, each by itself: lanes would cost more than they save.
template <int count, class T, int N, bool C, bool back, bool down>
ALWAYS_INLINE void lift_few(const Lifting<T>& how, Pairs<down, const T> from, Pairs<!down, T> to,
                            int64_t begin) {
  using S = Steps<N, C>;
  constexpr int U = down == back, all = count + 2 * N;
  const int64_t on = back ? -1 : 1, origin = back ? begin + count - 1 : begin;
  T u[all], v[all], lifted[all], pair[2];  // from N pairs before the first one on
  for (int p = 0; p < all; ++p) {
    from.get(origin + on * (p - N), pair);
    u[p] = pair[U], v[p] = pair[1 - U];
  }
  for (int p = down ? !C : N - 1 + C; p < (down ? all : N + count); ++p) {
    T sum = 0;
    if constexpr (down) sum = S::shorter(how, sum, v[p - !C], v[p]);
    else sum = S::longer(how, sum, v + p - S::middle);
    lifted[p] = how.scale_u * u[p] + sum;
  }
  for (int p = N; p < N + count; ++p) {
    T sum = 0;
    if constexpr (down) sum = S::longer(how, sum, lifted + p - S::middle);
    else sum = S::shorter(how, sum, lifted[p - !C], lifted[p]);
    pair[U] = lifted[p], pair[1 - U] = how.scale_v * v[p] + sum;
    to.put(origin + on * (p - N), pair);
  }
}

template <class T, int W, int N, bool C, bool back, bool down>
void lift_line(const Lifting<T>& how, const T* first, const T* second, T* to_first, T* to_second,
               int64_t begin, int64_t end) {
  const Pairs<down, const T> from{first, second};
  const Pairs<!down, T> to{to_first, to_second};
  if (N == 1 && end - begin == 2) return lift_few<2, T, N, C, back, down>(how, from, to, begin);  // an end
  if (end - begin >= W) return lift_rows<T, W, N, C, back, down, 1>(&how, from, &to, begin, end);
  if constexpr (W > 4)
    return lift_line<T, W / 2, N, C, back, down>(how, first, second, to_first, to_second, begin, end);
  else
    for (; begin < end; ++begin) lift_few<1, T, N, C, back, down>(how, from, to, begin);
}

// Across rows: u' and v', and in `rows` the two in their order in memory. Down, `shorter` reads the
// rows `before` and `behind`, and `longer` those around, which were lifted before; up, `longer` reads
// those around, and `shorter` the row `before`, which was.
template <class T, int W, int N, bool C, bool down, class V>
ALWAYS_INLINE V across(const Lifting<T>& how, const LiftedRows<T>& r, int64_t i, V (&rows)[2]) {
  using S = Steps<N, C>;
  V x[S::count], before = {}, lifted;
  for (int k = 0; k < S::count - down; ++k) x[k] = once(load<T, W>(r.around[k] + i));
  if constexpr (!C) before = once(load<T, W>(r.before + i));
  const V centre = load<T, W>(r.centre + i);
  if constexpr (down) {
    lifted = S::shorter(how, centre, before, V(load<T, W>(r.behind + i)));
    x[S::count - 1] = lifted;
    const V own = N == 1 && !C ? before : V(load<T, W>(r.own + i));
    rows[0] = x[S::middle], rows[1] = S::longer(how, own, x);
  } else {
    lifted = S::longer(how, centre, x);
    rows[0] = S::shorter(how, x[S::middle], before, lifted), rows[1] = lifted;
  }
  return lifted;
}

template <class T, int W, int N, bool C, bool down>
void lift_across(const Lifting<T>& how, const LiftedRows<T>& rows, T* to, int64_t begin,
                 int64_t end) {
  if constexpr (W > 1)
    if (end - begin < W) return lift_across<T, W / 2, N, C, down>(how, rows, to, begin, end);
  typename Lanes<T, W>::Vector out[2];
  for (int64_t i = begin; i < end; i += W) {
    if (i + W > end) i = end - W;
    store<T, W>(rows.fresh + i, across<T, W, N, C, down>(how, rows, i, out));
    store<T, W>(to + i, out[down]);
  }
}

// Pairs of two rows, lifted across. Down, a row has its pairs in turn; up, in two runs, which are
// rows to lift across.
template <class T, int N, bool C, bool down>
struct Across {
  Lifting<T> how;
  LiftedRows<T> rows[2];

  template <int W, class V>
  ALWAYS_INLINE void take(int64_t i, V (&x)[2][2]) const {
    V out[2];
    for (int v = 0; v < 2; ++v) {
      const LiftedRows<T>& r = rows[down ? 0 : v];
      const int64_t at = down ? 2 * i + v * W : i;
      const V lifted = across<T, W, N, C, down>(how, r, at, out);
      if constexpr (down || !C) store<T, W>(r.fresh + at, lifted);
      x[0][v] = out[0], x[1][v] = out[1];
    }
    if constexpr (down)
      for (int r = 0; r < 2; ++r) deal<T, W>(x[r][0], x[r][1]);
  }
};

template <class T, int W, int N, bool C, bool back, bool down>
void lift_plane(const Lifting<T>& how, const Lifting<T>* along, const LiftedRows<T>* rows,
                T* const* out, int64_t begin, int64_t end) {
  const Across<T, N, C, down> from{how, {rows[0], rows[down ? 0 : 1]}};
  const Pairs<!down, T> to[2] = {{out[0], out[1]}, {out[2], out[3]}};
  lift_rows<T, W, N, C, back, down, 2>(along, from, to, begin, end);
}

template <class T, int W, int N, bool C, bool back>
constexpr LiftLoops<T> lift_loops() {
  return {lift_line<T, W, N, C, back, true>,  lift_line<T, W, N, C, back, false>,
          lift_across<T, W, N, C, true>,      lift_across<T, W, N, C, false>,
          lift_plane<T, W, N, C, back, true>, lift_plane<T, W, N, C, back, false>};
}
