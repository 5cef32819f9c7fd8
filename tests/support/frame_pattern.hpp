// Frames whose every byte follows from their sequence: a torn one shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <vramlink/channel.hpp>

#include "support/test_device.hpp"

namespace vramlink::test {

/// The word at `index` of the frame with `sequence`.
[[nodiscard]] constexpr std::uint64_t pattern_word(std::uint64_t sequence,
                                                   std::uint64_t index) noexcept {
  return (sequence * 0x9e37'79b9'7f4a'7c15u) ^ (index * 0xff51'afd7'ed55'8ccdu);
}

/// Of host memory. `bytes` is a whole number of words.
inline void fill_pattern(std::span<std::byte> bytes, std::uint64_t sequence) noexcept {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = pattern_word(sequence, at / 8);
    std::memcpy(bytes.data() + at, &word, 8);
  }
}

[[nodiscard]] inline bool has_pattern(std::span<const std::byte> bytes,
                                      std::uint64_t sequence) noexcept {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    if (word != pattern_word(sequence, at / 8)) return false;
  }
  return true;
}

/// What travels beside the bytes of such a frame: which Publisher of its process made it.
struct PatternInfo {
  std::uint64_t life = 0;
  std::uint64_t sequence = 0;
};

[[nodiscard]] inline PatternInfo pattern_info(const Frame& frame) noexcept {
  PatternInfo info;
  if (frame.user_data().size() == sizeof(info)) {
    std::memcpy(&info, frame.user_data().data(), sizeof(info));
  }
  return info;
}

/// Bytes, user data and time stamp all belong to the frame's sequence.
[[nodiscard]] inline bool is_whole(const Frame& frame) {
  return pattern_info(frame).sequence == frame.sequence() &&
         frame.media_ns() == static_cast<std::int64_t>(frame.sequence()) &&
         (TestDevice::is_host() ? has_pattern(frame.bytes(), frame.sequence())
                                : has_pattern(TestDevice::read(frame.bytes()), frame.sequence()));
}

/// Fills a claimed frame for `sequence`, which the caller knows to be the next, and publishes it.
[[nodiscard]] inline Result<Receipt> publish_pattern(Publisher& publisher, WritableFrame&& frame,
                                                     const PatternInfo& info) {
  if (TestDevice::is_host()) {
    fill_pattern(frame.bytes(), info.sequence);
  } else {
    std::vector<std::byte> bytes(frame.bytes().size());
    fill_pattern(bytes, info.sequence);
    TestDevice::write_in(TestDevice::stream(), frame.data(), bytes);
  }
  return publisher.publish(
      std::move(frame), TestDevice::stream(),
      {static_cast<std::int64_t>(info.sequence), std::as_bytes(std::span(&info, 1)), 0});
}

/// The same by a copy out of this process's memory.
[[nodiscard]] inline Result<Receipt> publish_pattern_copy(Publisher& publisher,
                                                          const PatternInfo& info,
                                                          Deadline deadline) {
  std::vector<std::byte> bytes(publisher.format().payload_bytes);
  fill_pattern(bytes, info.sequence);
  return publisher.publish_copy(
      bytes, StreamView::already_complete(), deadline,
      {static_cast<std::int64_t>(info.sequence), std::as_bytes(std::span(&info, 1)), 0});
}

}  // namespace vramlink::test
