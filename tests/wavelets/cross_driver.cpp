// The kernels without torch, for another processor: test_aarch64.py compiles and runs this.
//
// Reads cases from stdin, each as numbers in text:
//   down? | ndim, shape | numbers of the plan | tensors: count, then for each its elements
// (every list with its length before it), and writes what each gives, one line an element.
#include <torch/csrc/stable/c/shim.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "plan.h"

// In place of torch's threads: two halves, one after the other.
extern "C" AOTITorchError torch_get_num_threads(uint32_t* out) { return *out = 2, 0; }
extern "C" AOTITorchError torch_parallel_for(int64_t begin, int64_t end, int64_t, ParallelFunc f,
                                             void* context) {
  const int64_t middle = (begin + end) / 2;
  f(begin, middle, context), f(middle, end, context);
  return 0;
}

namespace {

template <class T>
std::vector<T> read() {
  size_t count;
  std::cin >> count;
  std::vector<T> found(count);
  for (T& value : found) std::cin >> value;
  return found;
}

void write(const std::vector<double>& values) {
  for (double value : values) std::printf("%.17g\n", value);
}

template <class T>
void run(bool down, const std::vector<int64_t>& shape, const std::string& text,
         const std::vector<std::vector<double>>& data) {
  const auto plan = rightfast::planned<T>(shape, text, down);
  std::vector<std::vector<T>> bands;  // low, then the details; all are there
  for (const auto& shape : plan->present) bands.emplace_back(shape.elements);
  std::vector<T> signal(plan->signal.elements);
  if (down) signal.assign(data[0].begin(), data[0].end());
  else
    for (size_t b = 0; b < bands.size(); ++b) bands[b].assign(data[b].begin(), data[b].end());
  std::vector<T*> details;
  for (size_t b = 1; b < bands.size(); ++b) details.push_back(bands[b].data());
  if (!down) {
    const std::vector<const T*> read_only(details.begin(), details.end());
    rightfast::transform_up<T>(*plan, bands[0].data(), read_only, signal.data());
    return write({signal.begin(), signal.end()});
  }
  rightfast::transform_down<T>(*plan, signal.data(), bands[0].data(), details);
  for (const auto& band : bands) write({band.begin(), band.end()});
}

}  // namespace

int main() {
  bool down, wide;
  while (std::cin >> down >> wide) {
    const auto shape = read<int64_t>();
    std::string text;
    for (int64_t number : read<int64_t>()) text += std::to_string(number) + ' ';
    size_t count;
    std::cin >> count;
    std::vector<std::vector<double>> data;
    for (size_t i = 0; i < count; ++i) data.push_back(read<double>());
    wide ? run<double>(down, shape, text, data) : run<float>(down, shape, text, data);
  }
}
