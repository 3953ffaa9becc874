// rightfast::empty_many(like, sizes, ndim) -> tensors
//
// Several uninitialised contiguous tensors in one call, with the dtype and on the device of `like`;
// `sizes` are the shapes one after another, `ndim` numbers each. From Python a tensor costs 2 us,
// and the bands of a small transform on a GPU would cost more than the transform.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <vector>

namespace rightfast {
namespace {

using torch::stable::Tensor;

std::vector<Tensor> empty_many(Tensor like, std::vector<int64_t> sizes, int64_t ndim) {
  STD_TORCH_CHECK(ndim > 0 && sizes.size() % ndim == 0, "expected shapes of ", ndim,
                  " sizes each, got ", sizes.size(), " sizes in all");
  int32_t dtype, device, index;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(like.get(), &dtype));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &index));
  std::vector<int64_t> strides(ndim);
  std::vector<Tensor> found;
  found.reserve(sizes.size() / ndim);
  for (const int64_t* shape = sizes.data(); shape < sizes.data() + sizes.size(); shape += ndim) {
    int64_t elements = 1;
    for (int64_t d = ndim; d-- > 0; elements *= shape[d]) strides[d] = elements;
    AtenTensorHandle made;
    TORCH_ERROR_CODE_CHECK(
        aoti_torch_empty_strided(ndim, shape, strides.data(), dtype, device, index, &made));
    found.push_back(Tensor(made));
  }
  return found;
}

}  // namespace
}  // namespace rightfast

STABLE_TORCH_LIBRARY_FRAGMENT(rightfast, m) {
  m.def("empty_many(Tensor like, int[] sizes, int ndim) -> Tensor[]");
}

STABLE_TORCH_LIBRARY_IMPL(rightfast, CompositeExplicitAutograd, m) {
  m.impl("empty_many", TORCH_BOX(&rightfast::empty_many));
}
