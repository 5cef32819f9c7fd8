// Messages to bytes, and bytes of a peer to messages that can be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <vramlink/result.hpp>

#include "wire/messages.hpp"

namespace vramlink::wire {

/// How many fds go with this message, by its own fields.
template <class M>
[[nodiscard]] constexpr std::uint32_t expected_fd_count(const M&) noexcept {
  static_assert(MessageTraits<M>::kFdCountMin == MessageTraits<M>::kFdCountMax);
  return MessageTraits<M>::kFdCountMin;
}
[[nodiscard]] constexpr std::uint32_t expected_fd_count(const Hello& message) noexcept {
  return (message.flags & kHelloPidfd) != 0 ? 1 : 0;
}
[[nodiscard]] constexpr std::uint32_t expected_fd_count(const Offer& message) noexcept {
  return message.private_bytes == 0 ? 1 : 3;
}

void fill_header(MessageHeader& header, MessageType type, std::size_t size_bytes,
                 std::uint32_t fd_count) noexcept;

/// Writes message.header and returns the bytes to send, which are those of `message`.
template <class M>
[[nodiscard]] std::span<const std::byte> encode(M& message) noexcept {
  fill_header(message.header, MessageTraits<M>::kType, sizeof(M), expected_fd_count(message));
  return std::as_bytes(std::span<const M, 1>(&message, 1));
}

/// The header of a received message: which decode<M>() to call. Codes: incompatible with both wire
/// versions; corrupt (too short, too long, wrong magic, unknown type, size or fds other than what
/// arrived).
[[nodiscard]] Result<MessageHeader> decode_header(std::span<const std::byte> bytes,
                                                  std::size_t fds_received);

/// A message with every field inside its limits. Codes: as decode_header(); corrupt with the field
/// for a different type, another size, a wrong number of fds, an unknown enumerator, a bad name or
/// text, or a number over its limit.
template <class M>
[[nodiscard]] Result<M> decode(std::span<const std::byte> bytes, std::size_t fds_received);

/// The name in a decoded message.
[[nodiscard]] std::string_view name_of(const Hello& message) noexcept;
/// Needs valid_channel_name(name).
void set_name(Hello& message, std::string_view name) noexcept;

/// The text in a decoded message.
[[nodiscard]] std::string_view text_of(const Refused& message) noexcept;
/// Cuts what does not fit; other than printable ASCII becomes '?'.
void set_text(Refused& message, std::string_view text) noexcept;

/// "hello"; "unknown" for other values. Static text.
[[nodiscard]] std::string_view name(MessageType type) noexcept;

}  // namespace vramlink::wire
