// Memory and threads for the work on one block.
#pragma once
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "pages.h"

namespace rightfast {

// Scratch memory, taken in nested scopes: nothing is allocated once it has grown. Each thread has
// one, and keeps a little from call to call: memory given back is memory that faults again.
class Arena {
 public:
  template <class T>
  T* take(int64_t count) {
    const size_t bytes = (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].size) ++chunk_, used_ = 0;
    if (chunk_ == chunks_.size()) chunks_.emplace_back(std::max(bytes, kChunk));
    char* place = chunks_[chunk_].start + used_;
    used_ += bytes;
    return reinterpret_cast<T*>(place);
  }

  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), chunk_(arena.chunk_), used_(arena.used_) {}
    ~Scope() {
      arena_.chunk_ = chunk_, arena_.used_ = used_;
      if (chunk_ == 0 && used_ == 0) arena_.shrink();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    size_t chunk_, used_;
  };

  static Arena& of_this_thread() {
    static thread_local Arena arena;
    return arena;
  }

 private:
  static constexpr size_t kAlign = 64, kChunk = 1 << 16, kKept = 1 << 23;
  void shrink() {
    size_t total = 0;
    for (const Chunk& chunk : chunks_) total += chunk.size;
    if (total > kKept) chunks_.clear();
  }
  struct Chunk {
    explicit Chunk(size_t bytes) : memory(new char[bytes + kAlign]), size(bytes) {
      start = memory.get() + (-reinterpret_cast<uintptr_t>(memory.get()) & (kAlign - 1));
      ask_huge_pages(start, bytes);
    }
    std::unique_ptr<char[]> memory;
    char* start;
    size_t size;
  };
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0, used_ = 0;
};

// Runs f(begin, end, arena) over 0 .. count: here, or in torch's threads, each with its arena.
struct Spread {
  bool threads;
  template <class F>
  void operator()(int64_t count, Arena& arena, const F& f) const {
    if (!threads || count < 2) return f(0, count, arena);
    torch::stable::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      Arena& own = Arena::of_this_thread();
      Arena::Scope scope(own);
      f(begin, end, own);
    });
  }
};

constexpr Spread in_this_thread{false};

// Calls f(first, count, arena) for pieces of a line of n samples; pieces start at even samples.
template <class F>
void in_pieces(int64_t n, Arena& arena, Spread spread, const F& f) {
  constexpr int64_t kPiece = 1 << 14;  // samples of a long line in one piece of work
  if (!spread.threads) return f(0, n, arena);
  spread((n + kPiece - 1) / kPiece, arena, [&](int64_t begin, int64_t end, Arena& own) {
    for (int64_t p = begin; p < end; ++p) f(p * kPiece, std::min(kPiece, n - p * kPiece), own);
  });
}

}  // namespace rightfast
