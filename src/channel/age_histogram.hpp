// Ages of received frames in buckets whose width grows with the age.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace vramlink::inline v0::channel {

/// 16 buckets an octave: a percentile is within 4 percent. One writer at a time, any readers; no
/// allocation.
class AgeHistogram {
 public:
  /// A negative age, which two time namespaces can make, is not counted.
  void add(std::int64_t age_ns) noexcept {
    if (age_ns < 0) return;
    std::atomic<std::uint64_t>& bucket = buckets_[index_of(static_cast<std::uint64_t>(age_ns))];
    bucket.store(bucket.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// The age that `fraction` (0 to 1) of the counted frames do not exceed; -1 if none was counted.
  [[nodiscard]] std::int64_t percentile(double fraction) const noexcept {
    std::uint64_t total = 0;
    for (const auto& bucket : buckets_) total += bucket.load(std::memory_order_relaxed);
    if (total == 0) return -1;
    auto left = static_cast<std::uint64_t>(static_cast<double>(total - 1) * fraction) + 1;
    for (std::size_t index = 0; index < kBucketCount; ++index) {
      const std::uint64_t count = buckets_[index].load(std::memory_order_relaxed);
      if (count >= left) return middle_of(index);
      left -= count;
    }
    return middle_of(kBucketCount - 1);
  }

 private:
  static constexpr unsigned kSubBits = 4;  // 16 buckets an octave
  static constexpr std::size_t kBucketCount = (64 - kSubBits + 1) << kSubBits;

  static constexpr std::size_t index_of(std::uint64_t value) noexcept {
    if (value < (1u << kSubBits)) return static_cast<std::size_t>(value);
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kSubBits - 1;
    return ((static_cast<std::size_t>(shift) + 1) << kSubBits) +
           static_cast<std::size_t>((value >> shift) - (1u << kSubBits));
  }
  static constexpr std::int64_t middle_of(std::size_t index) noexcept {
    if (index < (1u << kSubBits)) return static_cast<std::int64_t>(index);
    const unsigned shift = static_cast<unsigned>(index >> kSubBits) - 1;
    const std::uint64_t low = ((index & ((1u << kSubBits) - 1)) + (1u << kSubBits));
    return static_cast<std::int64_t>((low << shift) + ((std::uint64_t{1} << shift) >> 1));
  }

  std::array<std::atomic<std::uint64_t>, kBucketCount> buckets_{};
};

}  // namespace vramlink::inline v0::channel
