// Tables of fixed size for what the driver owns. Nothing is allocated: the sanitizers of a client
// would watch an allocator, and see no order between threads that our own lock keeps apart.
#pragma once

#include <array>
#include <cstdint>

namespace vramlink::simcuda {

enum class HandleKind : std::uint8_t {
  context = 1,
  stream,
  event,
  memory,
  graph,
  node,
  exec,
  module,
  function,
  pool
};

/// Objects behind handles. A handle names a slot and its life, so a stale one is found out.
template <class T, HandleKind kKind, std::uint32_t kMax>
class Pool {
 public:
  static_assert(kMax <= 0x10000);

  /// A fresh object, or nullptr if there are too many. Slots are reused as late as possible.
  T* add() noexcept {
    for (std::uint32_t i = 0; i < kMax; ++i) {
      const std::uint32_t index = (next_ + i) % kMax;
      if (lives_[index] % 2 == 1) continue;
      next_ = index + 1;
      ++lives_[index];
      ++count_;
      items_[index] = T{};
      return &items_[index];
    }
    return nullptr;
  }

  void remove(T* item) noexcept {
    ++lives_[index_of(item)];
    --count_;
  }

  [[nodiscard]] std::uint64_t handle_of(const T* item) const noexcept {
    const std::uint32_t index = index_of(item);
    return (kMark + static_cast<std::uint64_t>(kKind)) << 40 |
           static_cast<std::uint64_t>(lives_[index] & 0xffffffU) << 16 | index;
  }

  [[nodiscard]] T* find(std::uint64_t handle) noexcept {
    const std::uint32_t index = handle & 0xffff;
    if (index >= kMax || lives_[index] % 2 == 0) return nullptr;
    return handle_of(&items_[index]) == handle ? &items_[index] : nullptr;
  }
  template <class Tag>
  [[nodiscard]] T* find(Tag* handle) noexcept {
    return find(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(handle)));
  }

  [[nodiscard]] std::uint32_t index_of(const T* item) const noexcept {
    return static_cast<std::uint32_t>(item - items_.data());
  }
  [[nodiscard]] T& at(std::uint32_t index) noexcept { return items_[index]; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

  /// Calls `visit` for each living object, which may remove it.
  template <class Visit>
  void for_each(const Visit& visit) noexcept {
    for (std::uint32_t i = 0, left = count_; i < kMax && left > 0; ++i) {
      if (lives_[i] % 2 == 0) continue;
      --left;
      visit(items_[i]);
    }
  }

 private:
  static constexpr std::uint64_t kMark = 0x5c00;

  std::array<T, kMax> items_{};
  std::array<std::uint32_t, kMax> lives_{};  ///< odd while the object lives
  std::uint32_t next_ = 0;
  std::uint32_t count_ = 0;
};

/// A handle as the opaque pointer type that the API has for it.
template <class Handle, class PoolType, class T>
Handle to_handle(const PoolType& pool, const T* item) noexcept {
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(pool.handle_of(item)));
}

}  // namespace vramlink::simcuda
