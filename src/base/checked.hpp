// Arithmetic that says when it does not fit.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace vramlink::base {

[[nodiscard]] constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a,
                                                                 std::uint64_t b) noexcept {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

[[nodiscard]] constexpr std::optional<std::uint64_t> checked_multiply(std::uint64_t a,
                                                                      std::uint64_t b) noexcept {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// `value` rounded up to a multiple of `alignment`, a power of two.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_round_up(
    std::uint64_t value, std::uint64_t alignment) noexcept {
  const auto raised = checked_add(value, alignment - 1);
  if (!raised) return std::nullopt;
  return *raised & ~(alignment - 1);
}

/// Of times that a peer may have written; the nearest number that fits.
[[nodiscard]] constexpr std::int64_t saturating_subtract(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return b < 0 ? std::numeric_limits<std::int64_t>::max()
               : std::numeric_limits<std::int64_t>::min();
}

}  // namespace vramlink::base
