// cli: reading the values of options.
#include "parse.hpp"

#include <charconv>
#include <limits>

#include "timespec.hpp"

namespace vramlink::cli {
namespace {

constexpr std::uint32_t kQueueDepthMax = 63;
constexpr std::size_t kFractionDigitsMax = 9;

template <class Number>
std::optional<Number> whole(std::string_view text) noexcept {
  Number number{};
  if (text.empty() || text.front() == '-') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

struct Decimal {
  std::uint64_t value = 0;  // without the point
  std::uint64_t scale = 1;  // power of ten
};

// "2.5": digits, and at most nine behind a point.
std::optional<Decimal> decimal(std::string_view text) noexcept {
  const std::size_t point = text.find('.');
  const auto integer = whole<std::uint32_t>(text.substr(0, point));
  if (!integer) return std::nullopt;
  Decimal result{*integer, 1};
  if (point == std::string_view::npos) return result;
  const std::string_view fraction = text.substr(point + 1);
  const auto digits = whole<std::uint32_t>(fraction);
  if (!digits || fraction.size() > kFractionDigitsMax) return std::nullopt;
  for (std::size_t i = 0; i < fraction.size(); ++i) result.scale *= 10;
  result.value = result.value * result.scale + *digits;
  return result;
}

}  // namespace

std::int64_t Rate::due_ns(std::uint64_t index) const noexcept {
  if (numerator == 0) return 0;
  // In two steps, so that days of frames do not overflow.
  const std::uint64_t seconds = index / numerator * denominator;
  const std::uint64_t rest = index % numerator * denominator;
  return static_cast<std::int64_t>(seconds) * kNsPerSecond +
         static_cast<std::int64_t>(static_cast<long double>(rest) * kNsPerSecond / numerator);
}

std::optional<Size> parse_size(std::string_view text) noexcept {
  const std::size_t x = text.find('x');
  if (x == std::string_view::npos) return std::nullopt;
  const auto width = whole<std::uint32_t>(text.substr(0, x));
  const auto height = whole<std::uint32_t>(text.substr(x + 1));
  if (!width || !height || *width == 0 || *height == 0) return std::nullopt;
  return Size{*width, *height};
}

std::optional<Rate> parse_rate(std::string_view text) noexcept {
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const auto numerator = whole<std::uint32_t>(text.substr(0, slash));
    const auto denominator = whole<std::uint32_t>(text.substr(slash + 1));
    if (!numerator || !denominator || *denominator == 0) return std::nullopt;
    return Rate{*numerator, *denominator};
  }
  const auto number = decimal(text);
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  if (!number || number->value > kMax || number->scale > kMax) return std::nullopt;
  if (number->value == 0) return Rate{};
  return Rate{static_cast<std::uint32_t>(number->value), static_cast<std::uint32_t>(number->scale)};
}

std::optional<std::uint32_t> parse_receive_policy(std::string_view text) noexcept {
  constexpr std::string_view kQueue = "queue:";
  if (text == "latest") return 0;
  if (!text.starts_with(kQueue)) return std::nullopt;
  const auto depth = whole<std::uint32_t>(text.substr(kQueue.size()));
  if (!depth || *depth == 0 || *depth > kQueueDepthMax) return std::nullopt;
  return depth;
}

std::optional<SlotCounts> parse_slots(std::string_view text) noexcept {
  const auto is_count = [](const std::optional<std::uint32_t>& count) {
    return count && *count >= kSlotCountMin && *count <= kSlotCountMax;
  };
  const std::size_t colon = text.find(':');
  const auto count = whole<std::uint32_t>(text.substr(0, colon));
  if (!is_count(count)) return std::nullopt;
  if (colon == std::string_view::npos) return SlotCounts{*count, 0};
  const auto count_max = whole<std::uint32_t>(text.substr(colon + 1));
  if (!is_count(count_max) || *count_max < *count) return std::nullopt;
  return SlotCounts{*count, *count_max};
}

std::optional<PublishPolicy> parse_publish_policy(std::string_view text) noexcept {
  constexpr std::string_view kEvict = "evict:";
  if (text == "drop") return PublishPolicy{WhenFull::drop, {}};
  if (text == "block") return PublishPolicy{WhenFull::block, {}};
  if (text == "evict") return PublishPolicy{WhenFull::evict, {}};
  if (!text.starts_with(kEvict)) return std::nullopt;
  const auto lease_ns = parse_seconds(text.substr(kEvict.size()));
  if (!lease_ns || *lease_ns == 0) return std::nullopt;
  return PublishPolicy{WhenFull::evict, lease_ns};
}

std::optional<LegacyHandles> parse_legacy_handles(std::string_view text) noexcept {
  if (text == "never") return LegacyHandles::never;
  if (text == "if-needed") return LegacyHandles::if_needed;
  if (text == "always") return LegacyHandles::always;
  return std::nullopt;
}

std::optional<std::int64_t> parse_seconds(std::string_view text) noexcept {
  if (text == "inf") return std::numeric_limits<std::int64_t>::max();
  const auto number = decimal(text);
  if (!number) return std::nullopt;
  const auto ns = static_cast<long double>(number->value) * kNsPerSecond / number->scale;
  if (ns >= 9.2e18L) return std::nullopt;
  return static_cast<std::int64_t>(ns);
}

}  // namespace vramlink::cli
