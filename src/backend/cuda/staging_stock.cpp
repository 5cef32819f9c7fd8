// See staging_stock.hpp.
#include "backend/cuda/staging_stock.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vramlink::cuda {

std::unique_ptr<StagingBuffer> StagingStock::take(std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  auto best = buffers_.end();
  for (auto each = buffers_.begin(); each != buffers_.end(); ++each) {
    const std::uint64_t bytes = (*each)->pages.size_bytes();
    if (bytes < size_bytes) continue;
    if (best != buffers_.end() && (*best)->pages.size_bytes() <= bytes) continue;
    if ((*each)->is_idle(context_.driver())) best = each;
  }
  if (best == buffers_.end()) return nullptr;
  std::unique_ptr<StagingBuffer> taken = std::move(*best);
  buffers_.erase(best);
  return taken;
}

void StagingStock::put(std::vector<std::unique_ptr<StagingBuffer>> buffers) noexcept {
  std::vector<std::unique_ptr<StagingBuffer>> surplus;  // ends outside the lock: that blocks
  const ContextScope scope(context_);
  const std::lock_guard lock(mutex_);
  buffers_.insert(buffers_.end(), std::make_move_iterator(buffers.begin()),
                  std::make_move_iterator(buffers.end()));
  if (!scope) return;  // nothing can be asked, and nothing unregistered
  std::uint64_t bytes = 0;
  for (const auto& buffer : buffers_) bytes += buffer->pages.size_bytes();
  for (auto each = buffers_.begin(); each != buffers_.end();) {
    const std::size_t count = buffers_.size();
    if (count <= kKeptCountMin || (count <= kKeptCountMax && bytes <= kKeptBytesMax)) return;
    if (!(*each)->is_idle(context_.driver())) {
      ++each;
      continue;
    }
    bytes -= (*each)->pages.size_bytes();
    surplus.push_back(std::move(*each));
    each = buffers_.erase(each);
  }
}

void StagingStock::leak() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& buffer : buffers_) static_cast<void>(buffer.release());
  buffers_.clear();
}

}  // namespace vramlink::cuda
