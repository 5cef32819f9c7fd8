// Channel names: they become file names and appear in logs, so few characters are allowed.
#pragma once

#include <algorithm>
#include <string_view>

#include "wire/limits.hpp"

namespace vramlink::wire {

[[nodiscard]] constexpr bool valid_name_character(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '@' || c == '+' || c == '-';
}

/// 1 to 120 characters of [A-Za-z0-9._@+-], the first not a dot.
[[nodiscard]] constexpr bool valid_channel_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kNameBytesMax && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), valid_name_character);
}

}  // namespace vramlink::wire
