// Reading numbers and words out of small texts. Private to this layer.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace vramlink::os {

/// The number that `text` is, with nothing before or behind it.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) noexcept {
  Number number{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Takes the first word from `text`; empty if there is none.
[[nodiscard]] inline std::string_view next_word(std::string_view& text) noexcept {
  constexpr std::string_view kBlank = " \t\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(kBlank));
  text.remove_prefix(word.size());
  return word;
}

}  // namespace vramlink::os
