// The operators, on the libtorch stable ABI:
//
//   rightfast::dwt_down(x, plan) -> [low band, details of the deepest level, ..., the first]
//   rightfast::dwt_up(bands, plan) -> x    the adjoint of dwt_down for the same plan
//   rightfast::dwt_down_into(x, plan, out), dwt_up_into(bands, plan, out)
//                                          the same into contiguous tensors that are there
//   rightfast::dwt_cpu(name) -> name               which instruction set to use, see loops.h
//
// A synthesis is the adjoint of an analysis by the reconstruction filters, so that the two serve
// all four: decomposition, reconstruction, and the gradients of both. plan.h has the plan.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
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

Tensor empty(const Shape& shape, ScalarType dtype) {
  const bool wide = dtype == ScalarType::Double;
  AtenTensorHandle made;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      shape.sizes.size(), shape.sizes.data(), shape.strides.data(),
      wide ? aoti_torch_dtype_float64() : aoti_torch_dtype_float32(),
      aoti_torch_device_type_cpu(), 0, &made));
  Tensor result(made);
  const size_t bytes = shape.elements * (wide ? 8 : 4);
  if (bytes >= kWorthHuge) ask_huge_pages(result.mutable_data_ptr(), bytes);
  return result;
}

bool is_wide(const Tensor& t, const char* what) {
  const ScalarType dtype = t.scalar_type();
  check(t, dtype == ScalarType::Double ? dtype : ScalarType::Float, what);
  return dtype == ScalarType::Double;
}

// The bands in order, as pointers; the low band, if there is one, apart from the details.
template <class P, class Get>
P split_off_low(bool has_low, const std::vector<Tensor>& bands, std::vector<P>& details, Get get) {
  details.reserve(bands.size());
  for (size_t i = has_low ? 1 : 0; i < bands.size(); ++i) details.push_back(get(bands[i]));
  return has_low ? get(bands[0]) : nullptr;
}

bool is_like(const Tensor& t, const Shape& shape) {
  const auto sizes = t.sizes();
  return std::equal(sizes.begin(), sizes.end(), shape.sizes.begin(), shape.sizes.end());
}

template <class T>
void check_bands(const Plan<T>& plan, const std::vector<Tensor>& bands, ScalarType dtype) {
  STD_TORCH_CHECK(bands.size() == plan.present.size(), "expected ", plan.present.size(),
                  " bands, got ", bands.size());
  for (size_t i = 0; i < bands.size(); ++i) {
    STD_TORCH_CHECK(is_like(bands[i], plan.present[i]),
                    "expected bands as planned, got another one at place ", i);
    check(bands[i], dtype, "the bands");
  }
}

// Fills `bands`, or makes them if there are none.
template <class T>
void down(const Tensor& x, const std::string& text, std::vector<Tensor>& bands) {
  const auto kept = planned<T>(shape_of(x), text, true);
  const Plan<T>& plan = *kept;
  STD_TORCH_CHECK(is_like(x, plan.signal), "expected a signal as planned");
  const ScalarType dtype = x.scalar_type();
  if (bands.empty()) {
    bands.reserve(plan.present.size());
    for (const Shape& shape : plan.present) bands.push_back(empty(shape, dtype));
  } else {
    check_bands(plan, bands, dtype);
  }
  if (x.numel() == 0) return;
  std::vector<T*> details;
  T* low = split_off_low(plan.levels.back().has(0), bands, details, [](const Tensor& band) {
    return static_cast<T*>(band.mutable_data_ptr());
  });
  transform_down<T>(plan, static_cast<const T*>(x.const_data_ptr()), low, details);
}

// Fills `x`, or makes it if it is null; returns it.
template <class T>
Tensor up(const std::vector<Tensor>& bands, const std::string& text, const Tensor* out) {
  const auto kept = planned<T>(shape_of(bands[0]), text, false);
  const Plan<T>& plan = *kept;
  const ScalarType dtype = bands[0].scalar_type();
  check_bands(plan, bands, dtype);
  const Tensor x = out ? *out : empty(plan.signal, dtype);
  check(x, dtype, "the signal");
  STD_TORCH_CHECK(is_like(x, plan.signal), "expected a signal as planned");
  if (x.numel() == 0) return x;
  std::vector<const T*> details;
  const T* low = split_off_low(plan.levels.back().has(0), bands, details, [](const Tensor& band) {
    return static_cast<const T*>(band.const_data_ptr());
  });
  transform_up<T>(plan, low, details, static_cast<T*>(x.mutable_data_ptr()));
  return x;
}

void dwt_down_into(Tensor x, std::string plan, std::vector<Tensor> out) {
  STD_TORCH_CHECK(!out.empty(), "expected tensors to fill");
  is_wide(x, "the signal") ? down<double>(x, plan, out) : down<float>(x, plan, out);
}

std::vector<Tensor> dwt_down(Tensor x, std::string plan) {
  std::vector<Tensor> made;
  is_wide(x, "the signal") ? down<double>(x, plan, made) : down<float>(x, plan, made);
  return made;
}

Tensor up_any(const std::vector<Tensor>& bands, const std::string& plan, const Tensor* out) {
  STD_TORCH_CHECK(!bands.empty(), "expected at least one band");
  return is_wide(bands[0], "the bands") ? up<double>(bands, plan, out)
                                        : up<float>(bands, plan, out);
}

void dwt_up_into(std::vector<Tensor> bands, std::string plan, Tensor out) {
  up_any(bands, plan, &out);
}

Tensor dwt_up(std::vector<Tensor> bands, std::string plan) {
  return up_any(bands, plan, nullptr);
}

std::string dwt_cpu(std::string name) { return choose(name.c_str()); }

}  // namespace
}  // namespace rightfast

STABLE_TORCH_LIBRARY_FRAGMENT(rightfast, m) {
  m.def("dwt_down(Tensor x, str plan) -> Tensor[]");
  m.def("dwt_up(Tensor[] bands, str plan) -> Tensor");
  m.def("dwt_down_into(Tensor x, str plan, Tensor(a!)[] out) -> ()");
  m.def("dwt_up_into(Tensor[] bands, str plan, Tensor(a!) out) -> ()");
  m.def("dwt_cpu(str name) -> str");
}

STABLE_TORCH_LIBRARY_IMPL(rightfast, CPU, m) {
  m.impl("dwt_down", TORCH_BOX(&rightfast::dwt_down));
  m.impl("dwt_up", TORCH_BOX(&rightfast::dwt_up));
  m.impl("dwt_down_into", TORCH_BOX(&rightfast::dwt_down_into));
  m.impl("dwt_up_into", TORCH_BOX(&rightfast::dwt_up_into));
}

STABLE_TORCH_LIBRARY_IMPL(rightfast, CompositeExplicitAutograd, m) {
  m.impl("dwt_cpu", TORCH_BOX(&rightfast::dwt_cpu));
}
