// Control segments as a publisher would fill them before sending, in aligned memory.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <span>

#include <vramlink/version.hpp>

#include "wire/format_block.hpp"
#include "wire/layout_v1.hpp"

namespace vramlink::test {

template <std::size_t size>
struct alignas(4096) Pages {
  std::array<std::byte, size> bytes{};
};
using BroadcastPages = Pages<wire::kBroadcastBytes>;
using PrivatePages = Pages<wire::kPrivateBytes>;

inline std::unique_ptr<BroadcastPages> sample_broadcast(const Format& format) {
  auto pages = std::make_unique<BroadcastPages>();
  wire::Broadcast& segment = wire::broadcast_at(pages->bytes.data());
  segment.magic = wire::kBroadcastMagic;
  segment.wire = kWireVersion;
  segment.bytes = wire::kBroadcastBytes;
  segment.epoch = 0x1122'3344'5566'7788;
  segment.generation = 2;
  segment.slot_count = 4;
  segment.slot_pitch = (format.payload_bytes + wire::kSlotPitchUnitBytes - 1) /
                       wire::kSlotPitchUnitBytes * wire::kSlotPitchUnitBytes;
  segment.first_sequence = 42;
  wire::encode_format(format, segment.format);
  return pages;
}

inline std::unique_ptr<PrivatePages> sample_private() {
  auto pages = std::make_unique<PrivatePages>();
  wire::Private& segment = wire::private_at(pages->bytes.data());
  segment.magic = wire::kPrivateMagic;
  segment.wire = kWireVersion;
  segment.bytes = wire::kPrivateBytes;
  segment.epoch = 0x1122'3344'5566'7788;
  segment.generation = 2;
  segment.first_ticket = 17;
  segment.max_held = 2;
  segment.depth = 3;
  return pages;
}

}  // namespace vramlink::test
