// The heads of control segments. Byte 0: bit 0 chooses the segment, bit 1 puts magic, wire and size
// in order, bit 2 cuts the mapping short. For a broadcast segment the next 56 bytes are its head
// and the rest its format block; for a private one the rest is its head.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include <vramlink/version.hpp>

#include "fuzz/expect.hpp"
#include "fuzz/format_oracle.hpp"
#include "support/sample_segments.hpp"
#include "wire/segment_check.hpp"

namespace vramlink::wire {
namespace {

using Input = std::span<const std::uint8_t>;

// Copies what fits and returns the rest.
Input copy_to(std::byte* target, std::size_t size_bytes, Input input) {
  const std::size_t count = std::min(size_bytes, input.size());
  if (count > 0) std::memcpy(target, input.data(), count);
  return input.subspan(count);
}

void expect_blame(const Error& error) {
  test::expect(error.code() == Code::corrupt || error.code() == Code::incompatible);
  test::expect(error.facts() != nullptr && !to_string(error).empty());
}

void run_broadcast(bool in_order, bool cut, Input input) {
  static test::BroadcastPages pages;
  std::memset(pages.bytes.data(), 0, 1024);
  Broadcast& segment = broadcast_at(pages.bytes.data());
  const Input rest = copy_to(pages.bytes.data(), offsetof(Broadcast, padding_56), input);
  (void)copy_to(segment.format, sizeof(segment.format), rest);
  if (in_order) {
    segment.magic = kBroadcastMagic;
    segment.wire = kWireVersion;
    segment.bytes = kBroadcastBytes;
    segment.reserved = 0;
  }
  const auto facts = check_broadcast(pages.bytes.data(), kBroadcastBytes - (cut ? 1 : 0));
  if (!facts) return expect_blame(facts.error());
  test::expect(!cut && facts->epoch != 0 && facts->generation != 0);
  test::expect(facts->slot_count >= kSlotCountMin && facts->slot_count <= kSlotCountMax);
  test::expect(facts->slot_pitch <= kPayloadBytesMax / facts->slot_count);
  test::expect(facts->slot_pitch % kSlotPitchUnitBytes == 0);
  test::expect(facts->format.payload_bytes <= facts->slot_pitch);
  test::expect_inside_payload(facts->format);
}

void run_private(bool in_order, bool cut, Input input) {
  static test::PrivatePages pages;
  std::memset(pages.bytes.data(), 0, 64);
  Private& segment = private_at(pages.bytes.data());
  (void)copy_to(pages.bytes.data(), offsetof(Private, padding_48), input);
  if (in_order) {
    segment.magic = kPrivateMagic;
    segment.wire = kWireVersion;
    segment.bytes = kPrivateBytes;
  }
  const auto facts = check_private(pages.bytes.data(), kPrivateBytes - (cut ? 1 : 0));
  if (!facts) return expect_blame(facts.error());
  test::expect(!cut && facts->epoch != 0 && facts->generation != 0 && facts->first_ticket != 0);
  test::expect(facts->max_held >= 1 && facts->max_held <= kMaxHeldMax);
  test::expect(facts->depth <= kQueueDepthMax);
}

}  // namespace
}  // namespace vramlink::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool in_order = (data[0] & 2) != 0;
  const bool cut = (data[0] & 4) != 0;
  if ((data[0] & 1) != 0) {
    vramlink::wire::run_private(in_order, cut, {data + 1, size - 1});
  } else {
    vramlink::wire::run_broadcast(in_order, cut, {data + 1, size - 1});
  }
  return 0;
}
