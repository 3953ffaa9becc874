// Huge pages for large memory that is about to be written in full.
//
// The C library maps memory of more than 32 MB anew at each allocation, and the first write to each
// page of 4 KB is a fault: for a result of 100 MB these cost more than the transform. Where the
// system hands out huge pages on request (transparent_hugepage: madvise, the usual setting), asking
// leaves one fault in 512. Where it never does, or always, asking changes nothing.
#pragma once
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstddef>
#include <cstdint>

namespace rightfast {

constexpr size_t kHuge = size_t{1} << 21, kWorthHuge = 2 * kHuge;

inline void ask_huge_pages(void* memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
  if (bytes < kWorthHuge) return;
  const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = (start + kHuge - 1) / kHuge * kHuge, end = (start + bytes) / kHuge * kHuge;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

}  // namespace rightfast
