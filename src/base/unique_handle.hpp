// Owns one raw handle. base: no OS, no CUDA.
#pragma once

#include <utility>

namespace vramlink::base {

/// Traits: Raw, kEmpty, static void close(Raw) noexcept.
template <class Traits>
class UniqueHandle {
 public:
  using Raw = typename Traits::Raw;

  UniqueHandle() noexcept = default;
  explicit UniqueHandle(Raw raw) noexcept : raw_(raw) {}
  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;
  UniqueHandle(UniqueHandle&& other) noexcept : raw_(other.release()) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~UniqueHandle() { reset(); }

  [[nodiscard]] Raw get() const noexcept { return raw_; }
  [[nodiscard]] explicit operator bool() const noexcept { return raw_ != Traits::kEmpty; }
  [[nodiscard]] Raw release() noexcept { return std::exchange(raw_, Traits::kEmpty); }
  void reset(Raw raw = Traits::kEmpty) noexcept {
    if (Raw old = std::exchange(raw_, raw); old != Traits::kEmpty) Traits::close(old);
  }

 private:
  Raw raw_ = Traits::kEmpty;
};

}  // namespace vramlink::base
