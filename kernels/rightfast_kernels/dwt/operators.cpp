// The operators, on the libtorch stable ABI:
//
//   rightfast::dwt_down(x, plan, taps) -> [low band, details of the deepest level, ..., the first]
//   rightfast::dwt_up(bands, plan, taps) -> x      the adjoint of dwt_down for the same lists
//   rightfast::dwt_cpu(name) -> name               which instruction set to use, see loops.h
//
// A synthesis is the adjoint of an analysis by the reconstruction filters, so that the two serve
// all four: decomposition, reconstruction, and the gradients of both. plan.h has the lists.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <string>
#include <vector>

#include "pages.h"
#include "plan.h"

namespace rightfast {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Ints = std::vector<int64_t>;

void check(const Tensor& t, ScalarType dtype, const char* what) {
  STD_TORCH_CHECK(t.is_cpu() && t.is_contiguous(), "expected ", what, " contiguous, on the CPU");
  STD_TORCH_CHECK(t.scalar_type() == dtype, "expected ", what, " of one dtype, float32 or float64");
}

Ints shape_of(const Tensor& t) { return {t.sizes().begin(), t.sizes().end()}; }

Tensor empty(const Ints& shape, ScalarType dtype) {
  Ints strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) strides[d] = stride;
  const bool wide = dtype == ScalarType::Double;
  AtenTensorHandle made;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      shape.size(), shape.data(), strides.data(),
      wide ? aoti_torch_dtype_float64() : aoti_torch_dtype_float32(),
      aoti_torch_device_type_cpu(), 0, &made));
  Tensor result(made);
  ask_huge_pages(result.mutable_data_ptr(), result.numel() * (wide ? 8 : 4));
  return result;
}

template <class T>
std::vector<Tensor> down(const Tensor& x, const Ints& list, const std::vector<double>& taps,
                         ScalarType dtype) {
  const auto kept = planned<T>(shape_of(x), list, taps, true);
  const Plan<T>& plan = *kept;
  STD_TORCH_CHECK(shape_of(x) == plan.signal_shape(), "expected a signal as planned");
  std::vector<Tensor> bands;
  for (auto level = plan.levels.rbegin(); level != plan.levels.rend(); ++level)
    for (int64_t k = level == plan.levels.rbegin() ? 0 : 1; k < plan.bands(); ++k)
      if (level->has(k)) bands.push_back(empty(plan.band_shape(*level), dtype));
  if (x.numel() == 0) return bands;
  std::vector<T*> places;
  for (const Tensor& band : bands) places.push_back(static_cast<T*>(band.mutable_data_ptr()));
  T* low = nullptr;
  if (plan.levels.back().has(0)) {
    low = places.front();
    places.erase(places.begin());
  }
  transform_down<T>(plan, static_cast<const T*>(x.const_data_ptr()), low, places);
  return bands;
}

template <class T>
Tensor up(const std::vector<Tensor>& bands, const Ints& list, const std::vector<double>& taps,
          ScalarType dtype) {
  const auto kept = planned<T>(shape_of(bands[0]), list, taps, false);
  const Plan<T>& plan = *kept;
  size_t at = 0;
  for (auto level = plan.levels.rbegin(); level != plan.levels.rend(); ++level)
    for (int64_t k = level == plan.levels.rbegin() ? 0 : 1; k < plan.bands(); ++k)
      if (level->has(k)) {
        STD_TORCH_CHECK(at < bands.size() && shape_of(bands[at]) == plan.band_shape(*level),
                        "expected bands as planned, got another one at place ", at);
        check(bands[at++], dtype, "the bands");
      }
  STD_TORCH_CHECK(at == bands.size(), "expected ", at, " bands, got ", bands.size());
  Tensor x = empty(plan.signal_shape(), dtype);
  if (x.numel() == 0) return x;
  std::vector<const T*> places;
  for (const Tensor& b : bands) places.push_back(static_cast<const T*>(b.const_data_ptr()));
  const T* low = nullptr;
  if (plan.levels.back().has(0)) {
    low = places.front();
    places.erase(places.begin());
  }
  transform_up<T>(plan, low, places, static_cast<T*>(x.mutable_data_ptr()));
  return x;
}

std::vector<Tensor> dwt_down(Tensor x, Ints plan, std::vector<double> taps) {
  const ScalarType dtype = x.scalar_type();
  const bool wide = dtype == ScalarType::Double;
  check(x, wide ? dtype : ScalarType::Float, "the signal");
  return wide ? down<double>(x, plan, taps, dtype) : down<float>(x, plan, taps, dtype);
}

Tensor dwt_up(std::vector<Tensor> bands, Ints plan, std::vector<double> taps) {
  STD_TORCH_CHECK(!bands.empty(), "expected at least one band");
  const ScalarType dtype = bands[0].scalar_type();
  const bool wide = dtype == ScalarType::Double;
  check(bands[0], wide ? dtype : ScalarType::Float, "the bands");
  return wide ? up<double>(bands, plan, taps, dtype) : up<float>(bands, plan, taps, dtype);
}

std::string dwt_cpu(std::string name) { return choose(name.c_str()); }

}  // namespace
}  // namespace rightfast

STABLE_TORCH_LIBRARY_FRAGMENT(rightfast, m) {
  m.def("dwt_down(Tensor x, int[] plan, float[] taps) -> Tensor[]");
  m.def("dwt_up(Tensor[] bands, int[] plan, float[] taps) -> Tensor");
  m.def("dwt_cpu(str name) -> str");
}

STABLE_TORCH_LIBRARY_IMPL(rightfast, CPU, m) {
  m.impl("dwt_down", TORCH_BOX(&rightfast::dwt_down));
  m.impl("dwt_up", TORCH_BOX(&rightfast::dwt_up));
}

STABLE_TORCH_LIBRARY_IMPL(rightfast, CompositeExplicitAutograd, m) {
  m.impl("dwt_cpu", TORCH_BOX(&rightfast::dwt_cpu));
}
