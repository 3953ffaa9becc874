// Which loops run: chosen once by what the processor has; RIGHTFAST_CPU, or `choose`, may ask for
// less, so that the narrower ones can be tested on a wide processor.
#include "loops.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace rightfast {
#define RIGHTFAST_DECLARE(set)         \
  namespace set {                      \
  extern const Loops<float> floats;    \
  extern const Loops<double> doubles;  \
  }
RIGHTFAST_DECLARE(baseline)
#ifdef __x86_64__
RIGHTFAST_DECLARE(avx2)
RIGHTFAST_DECLARE(avx512)
#endif

namespace {

struct Set {
  const char* name;
  bool (*runs)();
  const Loops<float>* floats;
  const Loops<double>* doubles;
};

const Set sets[] = {
#ifdef __x86_64__
    {"avx512",
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
     },
     &avx512::floats, &avx512::doubles},
    {"avx2", [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); },
     &avx2::floats, &avx2::doubles},
#endif
    {"baseline", [] { return true; }, &baseline::floats, &baseline::doubles},
};

const Set* find(const char* name) {
  const Set* widest = nullptr;
  for (const Set& set : sets) {
    if (!set.runs()) continue;
    if (!widest) widest = &set;
    if (name && !std::strcmp(set.name, name)) return &set;
  }
  return widest;
}

std::atomic<const Set*>& chosen() {
  static std::atomic<const Set*> set{find(std::getenv("RIGHTFAST_CPU"))};
  return set;
}

}  // namespace

template <> const Loops<float>& loops() { return *chosen().load()->floats; }
template <> const Loops<double>& loops() { return *chosen().load()->doubles; }

const char* choose(const char* name) {
  chosen() = find(name);
  return chosen().load()->name;
}

}  // namespace rightfast
