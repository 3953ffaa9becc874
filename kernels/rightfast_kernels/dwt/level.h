// One level over some axes of one block of memory: from a signal to its 2^d bands, and back.
#pragma once
#include <cstdint>
#include <vector>

#include "lifting.h"
#include "loops.h"
#include "tables.h"
#include "work.h"

namespace rightfast {

// What lies past the ends of an extended line e, which is kept as its even and its odd samples,
// each a run of axis.phase(), so that every tap reads consecutive numbers.
inline int64_t place(int64_t j, int64_t phase) { return j % 2 * phase + j / 2; }

template <class T>
struct Border {
  struct Copy {
    int64_t to, from;  // places in e
    T weight;
  };
  std::vector<int64_t> zeros;       // e[zero] = 0
  std::vector<Copy> copies, added;  // e[to] = weight e[from]; then e[to] += weight e[from]
  explicit Border(const Axis& axis);
  Border() = default;
};

// A dimension of the block: a plain one of `size`, or one to filter.
template <class T>
struct Dim {
  int64_t size, bands;        // samples, coefficients (equal if plain)
  int64_t inner, inner_band;  // elements behind one index, in the signal and in a band
  int filtered = 0;           // how many dimensions are filtered from here on
  const Axis* axis = nullptr;
  Border<T> border;
  Sums<T> line, rows;  // for a line of this dimension, or across lines of it
  // Haar's pair along so many dimensions from here on, the last ones (haar.cpp); the product of their
  // factors; and what lies past the end of this one if it is odd, by sample.
  int haar = 0;
  T haar_scale = 0;
  bool past_caches = false;  // what is written here is too large to stay in them
  struct Outside {
    int64_t from;
    T weight;
  };
  std::vector<Outside> outside;
  Lift<T> lift;
  bool is_line() const { return axis && filtered == 1 && inner < kRun; }
  static constexpr int64_t kRun = 16;  // fewer neighbours than this: filter one line for each
};

constexpr int kMost = 64;  // bands of one level

// The bands, each moved on by `offset`.
template <class P>
struct Moved {
  P bands[kMost];
  Moved(const P* from, int count, int64_t offset) {
    for (int k = 0; k < count; ++k) bands[k] = from[k] + offset;
  }
};

// Bands are in the order of band_keys: of the first filtered dimension, low before high.
template <class T>
void level_down(const Dim<T>* dims, const T* x, T* const* bands, Arena& arena, Spread spread);
template <class T>
void level_up(const Dim<T>* dims, const T* const* bands, T* x, Arena& arena, Spread spread);

// Along one contiguous line (line.cpp).
template <class T>
void line_down(const Dim<T>& dim, const T* x, T* low, T* high, Arena& arena, Spread spread);
template <class T>
void line_up(const Dim<T>& dim, const T* low, const T* high, T* x, Arena& arena, Spread spread);

// line_down of samples that already lie in e, where `place(before + i, phase)` says.
template <class T>
void line_down_from(const Dim<T>& dim, T* e, T* low, T* high, Arena& arena);

// Where `haar` is set (haar.cpp), which mark_haar does.
template <class T>
void haar_down(const Dim<T>* dims, const T* x, T* const* bands, Arena& arena, Spread spread);
template <class T>
void haar_up(const Dim<T>* dims, const T* const* bands, T* x, Arena& arena, Spread spread);
template <class T>
void mark_haar(std::vector<Dim<T>>& dims);

// Where `lift.line` is set (lifting.cpp), or `lift.plane` (lifting_plane.cpp), by mark_lifting.
template <class T>
void lift_line_down(const Dim<T>& dim, const T* x, T* low, T* high, Arena& arena, Spread spread);
template <class T>
void lift_line_up(const Dim<T>& dim, const T* low, const T* high, T* x, Arena& arena,
                  Spread spread);
template <class T>
void lift_plane_down(const Dim<T>* dims, const T* x, T* const* bands, Arena& arena, Spread spread);
template <class T>
void lift_plane_up(const Dim<T>* dims, const T* const* bands, T* x, Arena& arena, Spread spread);
template <class T>
void mark_lifting(std::vector<Dim<T>>& dims, bool down);

}  // namespace rightfast
