// wire: reading the head of a control segment that a peer made.
#include "wire/segment_check.hpp"

#include <array>
#include <span>
#include <string>

#include <vramlink/version.hpp>

#include "base/assert.hpp"
#include "base/checked.hpp"
#include "base/try.hpp"
#include "wire/format_block.hpp"
#include "wire/layout_v1.hpp"

namespace vramlink::wire {
namespace {

constexpr const char* kReadSegment = "read segment";

Error corrupt_segment(std::string_view field, std::string reason) {
  return Error(Code::corrupt, kReadSegment).about(field).because(std::move(reason));
}

// One load that the compiler neither repeats nor splits: the peer may be writing.
template <class T>
T load_once(const T& field) noexcept {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}

Result<void> check_head(std::string_view segment, std::uint32_t magic, std::uint32_t wanted_magic,
                        std::uint32_t wire) {
  if (magic != wanted_magic)
    return corrupt_segment("magic", "not a " + std::string(segment) + " segment");
  if (wire != kWireVersion) {
    return Error(Code::incompatible, kReadSegment)
        .about("wire")
        .because("the peer speaks wire version " + std::to_string(wire) + ", this process " +
                 std::to_string(kWireVersion))
        .remedy("use one version of vramlink on both sides")
        .numbers(wire, kWireVersion);
  }
  return {};
}

Result<void> check_size(std::size_t mapped, std::size_t wanted) {
  if (mapped != wanted) {
    return Error(Code::corrupt, kReadSegment)
        .about("size")
        .because("the segment has " + std::to_string(mapped) + " bytes, not " +
                 std::to_string(wanted))
        .numbers(mapped, wanted);
  }
  return {};
}

Result<void> check_lives(std::uint64_t epoch, std::uint64_t generation) {
  if (epoch == 0) return corrupt_segment("epoch", "is 0");
  if (generation == 0) return corrupt_segment("generation", "is 0");
  return {};
}

// Word by word, so that each is read once.
Result<Format> read_format(const Broadcast& segment) {
  static_assert(offsetof(Broadcast, format) % alignof(std::uint64_t) == 0);
  const auto* words = reinterpret_cast<const std::uint64_t*>(segment.format);
  std::array<std::uint64_t, kFormatBlockBytes / sizeof(std::uint64_t)> copy;
  for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = load_once(words[i]);
  return decode_format(std::as_bytes(std::span(copy)));
}

}  // namespace

Result<BroadcastFacts> check_broadcast(const std::byte* base, std::size_t size_bytes) {
  VRAMLINK_CHECK(check_size(size_bytes, kBroadcastBytes));
  VRAMLINK_ASSERT(reinterpret_cast<std::uintptr_t>(base) % alignof(Broadcast) == 0);
  const Broadcast& segment = broadcast_at(base);
  VRAMLINK_CHECK(
      check_head("broadcast", load_once(segment.magic), kBroadcastMagic, load_once(segment.wire)));
  if (load_once(segment.bytes) != kBroadcastBytes)
    return corrupt_segment("bytes", "not the size it has");
  if (load_once(segment.reserved) != 0) return corrupt_segment("reserved", "is not 0");

  BroadcastFacts facts;
  facts.epoch = load_once(segment.epoch);
  facts.generation = load_once(segment.generation);
  VRAMLINK_CHECK(check_lives(facts.epoch, facts.generation));
  facts.slot_count = load_once(segment.slot_count);
  if (facts.slot_count < kSlotCountMin || facts.slot_count > kSlotCountMax) {
    return corrupt_segment("slot_count", std::to_string(facts.slot_count) + " is not in 2..64");
  }
  facts.slot_pitch = load_once(segment.slot_pitch);
  const auto payload_bytes = base::checked_multiply(facts.slot_pitch, facts.slot_count);
  if (facts.slot_pitch == 0 || !payload_bytes || *payload_bytes > kPayloadBytesMax) {
    return corrupt_segment("slot_pitch", "the slots together are empty or over the limit");
  }
  if (facts.slot_pitch % kSlotPitchUnitBytes != 0) {
    return corrupt_segment("slot_pitch", "is not a multiple of 4096");
  }
  facts.first_sequence = load_once(segment.first_sequence);
  if (facts.first_sequence == 0 || facts.first_sequence >= kSequenceEnd) {
    return corrupt_segment("first_sequence", "is 0 or over the limit");
  }
  facts.format = VRAMLINK_TRY(read_format(segment));
  if (facts.format.payload_bytes > facts.slot_pitch) {
    return corrupt_segment("payload_bytes", "more than slot_pitch");
  }
  return facts;
}

Result<PrivateFacts> check_private(const std::byte* base, std::size_t size_bytes) {
  VRAMLINK_CHECK(check_size(size_bytes, kPrivateBytes));
  VRAMLINK_ASSERT(reinterpret_cast<std::uintptr_t>(base) % alignof(Private) == 0);
  const Private& segment = private_at(base);
  VRAMLINK_CHECK(
      check_head("private", load_once(segment.magic), kPrivateMagic, load_once(segment.wire)));
  if (load_once(segment.bytes) != kPrivateBytes)
    return corrupt_segment("bytes", "not the size it has");

  PrivateFacts facts;
  facts.epoch = load_once(segment.epoch);
  facts.generation = load_once(segment.generation);
  VRAMLINK_CHECK(check_lives(facts.epoch, facts.generation));
  facts.first_ticket = load_once(segment.first_ticket);
  if (facts.first_ticket == 0 || facts.first_ticket >= kTicketEnd) {
    return corrupt_segment("first_ticket", "is 0 or over the limit");
  }
  facts.max_held = load_once(segment.max_held);
  if (facts.max_held == 0 || facts.max_held > kMaxHeldMax) {
    return corrupt_segment("max_held", std::to_string(facts.max_held) + " is not in 1..64");
  }
  facts.depth = load_once(segment.depth);
  if (facts.depth > kQueueDepthMax) {
    return corrupt_segment("depth", std::to_string(facts.depth) + " is more than 63");
  }
  return facts;
}

}  // namespace vramlink::wire
