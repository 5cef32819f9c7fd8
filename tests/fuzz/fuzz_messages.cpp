// A peer's messages. Byte 0: fds that arrived; byte 1: bits 0..3 choose a message type whose header
// and size are put in order, so that the checks behind the header are reached; 0 leaves the bytes
// alone. The message follows.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "fuzz/expect.hpp"
#include "wire/codec.hpp"
#include "wire/names.hpp"

namespace vramlink::wire {
namespace {

using Bytes = std::vector<std::byte>;

// What every user of a decoded message counts on, beside the codec's own checks.
template <class M>
void use(const M&) {}

template <>
void use(const Hello& message) {
  test::expect(valid_channel_name(name_of(message)));
  test::expect(message.queue_depth <= kQueueDepthMax && message.max_held <= kMaxHeldMax);
}

template <>
void use(const Offer& message) {
  test::expect(message.slot_count >= kSlotCountMin && message.slot_count <= kSlotCountMax);
  test::expect(message.slot_pitch <= message.payload_bytes / message.slot_count);
  test::expect(message.granted_depth < message.slot_count);
}

template <>
void use(const Refused& message) {
  for (const char c : text_of(message)) test::expect(c >= 0x20 && c <= 0x7e);
}

template <>
void use(const Status& message) {
  test::expect(message.subscriber_count <= message.subscribers.size());
}

template <class M>
void try_decode(const Bytes& bytes, std::size_t fds) {
  auto decoded = decode<M>(bytes, fds);
  if (!decoded) {
    const Code code = decoded.error().code();
    test::expect(code == Code::corrupt || code == Code::incompatible);
    test::expect(!to_string(decoded.error()).empty());
    return;
  }
  test::expect(decode_header(bytes, fds).has_value());
  test::expect(fds <= kMessageFdCountMax);
  use<M>(*decoded);
  const auto again = encode(*decoded);
  test::expect(again.size() == bytes.size() &&
               std::memcmp(again.data(), bytes.data(), bytes.size()) == 0);
}

template <class M>
void put_in_order(Bytes& bytes, std::size_t fds) {
  bytes.resize(sizeof(M));
  MessageHeader header{};
  fill_header(header, MessageTraits<M>::kType, sizeof(M), static_cast<std::uint32_t>(fds));
  std::memcpy(bytes.data(), &header, sizeof(header));
}

void run(std::span<const std::uint8_t> input) {
  if (input.size() < 2) return;
  const std::size_t fds = input[0];
  const auto message = std::as_bytes(input.subspan(2));
  Bytes bytes(message.begin(), message.end());
  const auto wanted = static_cast<MessageType>(input[1] & 15);
#define VRAMLINK_X(Struct, enumerator, number, fd_min, fd_max) \
  if (wanted == MessageType::enumerator) put_in_order<Struct>(bytes, fds);
  VRAMLINK_WIRE_MESSAGES(VRAMLINK_X)
#undef VRAMLINK_X
#define VRAMLINK_X(Struct, enumerator, number, fd_min, fd_max) try_decode<Struct>(bytes, fds);
  VRAMLINK_WIRE_MESSAGES(VRAMLINK_X)
#undef VRAMLINK_X
}

}  // namespace
}  // namespace vramlink::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vramlink::wire::run({data, size});
  return 0;
}
