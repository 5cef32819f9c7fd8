// Hexadecimal digits. base: no OS, no CUDA.
#pragma once

#include <cstdint>
#include <string>

namespace vramlink::base {

/// 0..15, or -1.
[[nodiscard]] constexpr int hex_digit(char digit) noexcept {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

inline void append_hex(std::string& text, std::uint8_t byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  text += kDigits[byte >> 4];
  text += kDigits[byte & 15];
}

}  // namespace vramlink::base
