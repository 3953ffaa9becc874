// A whole transform, several levels over some axes, read from the text that an operator gets:
// integers with blanks between them (a list of as many costs a microsecond or two a call),
//
//   axes d, levels; for each axis its dimension (from the end, negative, ascending), mode, samples
//   before, taps F, then F low-pass and F high-pass taps in the order of tables.h, each as the bits
//   of a float64; for each level, the finest first, samples and coefficients of each axis, and
//   which bands are there, as bits
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "level.h"

namespace rightfast {

template <class T>
struct Level {
  std::vector<Axis> axes;
  std::vector<Dim<T>> dims;            // what is filtered, from the first such dimension inwards
  std::vector<int64_t> shape, bands;   // of the block, from there to the last dimension
  int64_t elements, band_elements;
  int64_t present;                     // bit k: band k is there (bit 0: of the deepest level only)
  bool has(int64_t band) const { return present >> band & 1; }
};

// A whole contiguous tensor.
struct Shape {
  std::vector<int64_t> sizes, strides;
  int64_t elements;
};

template <class T>
struct Plan {
  int64_t axes, blocks;  // blocks: one for each index of the dimensions in front
  std::vector<Level<T>> levels;
  Shape signal;
  std::vector<Shape> present;  // of the bands that are there, in their order
  int64_t bands() const { return int64_t{1} << axes; }
};

// The plan for a signal, or for bands (`down` is false), of this shape; only plain dimensions are
// read from it. The last few are kept: small transforms would spend most of their time on tables.
template <class T>
std::shared_ptr<const Plan<T>> planned(const std::vector<int64_t>& shape,
                                       const std::string& text, bool down);

// x -> the low band and the details, as pointers to what is present, and back. Details come with
// the deepest level first, in the order of their codes; `low` is null where there is none; what is
// absent is zero.
template <class T>
void transform_down(const Plan<T>& plan, const T* x, T* low, const std::vector<T*>& details);
template <class T>
void transform_up(const Plan<T>& plan, const T* low, const std::vector<const T*>& details, T* x);

}  // namespace rightfast
