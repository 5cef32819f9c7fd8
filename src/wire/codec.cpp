// wire: one check for each message; what passes it is inside every limit.
#include "wire/codec.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <vramlink/version.hpp>

#include "base/assert.hpp"
#include "base/checked.hpp"
#include "base/try.hpp"
#include "wire/names.hpp"

namespace vramlink::wire {
namespace {

constexpr const char* kReadMessage = "read message";

Error corrupt_message(std::string_view field, std::string reason) {
  return Error(Code::corrupt, kReadMessage).about(field).because(std::move(reason));
}

Error unequal(std::string_view field, std::uint64_t has, std::uint64_t wanted) {
  return Error(Code::corrupt, kReadMessage)
      .about(field)
      .because("is " + std::to_string(has) + ", not " + std::to_string(wanted))
      .numbers(has, wanted);
}

Result<void> at_most(std::string_view field, std::uint64_t value, std::uint64_t most) {
  if (value > most)
    return corrupt_message(field, std::to_string(value) + " is over " + std::to_string(most));
  return {};
}

Result<void> in_range(std::string_view field, std::uint64_t value, std::uint64_t least,
                      std::uint64_t most) {
  if (value < least || value > most) {
    return corrupt_message(field, std::to_string(value) + " is not in " + std::to_string(least) +
                                      ".." + std::to_string(most));
  }
  return {};
}

Result<void> is_zero(std::string_view field, std::uint64_t value) {
  if (value != 0) return corrupt_message(field, "is not 0");
  return {};
}

// The enums of messages count from 1 without a gap.
template <class Enum>
Result<void> known(std::string_view field, Enum value, Enum last) {
  return in_range(field, static_cast<std::uint64_t>(value), 1, static_cast<std::uint64_t>(last));
}

Result<void> known_code(std::string_view field, std::uint32_t value) {
  if (value > 0xffff || name(static_cast<Code>(value)) == "unknown") {
    return corrupt_message(field, std::to_string(value) + " is no code");
  }
  return {};
}

constexpr bool printable(char c) noexcept { return c >= 0x20 && c <= 0x7e; }

template <std::size_t size>
std::string_view until_zero(const std::array<char, size>& text) noexcept {
  const auto end = std::find(text.begin(), text.end(), '\0');
  return {text.data(), static_cast<std::size_t>(end - text.begin())};
}

template <std::size_t size>
bool zero_from(const std::array<char, size>& text, std::size_t start) noexcept {
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(),
                     [](char c) { return c == '\0'; });
}

Result<void> check(const ProcessFacts& process) {
  if (process.pid <= 0) return corrupt_message("pid", "is not positive");
  return is_zero("process.reserved", process.reserved);
}

Result<void> check_name(const Hello& message) {
  VRAMLINK_CHECK(in_range("name_bytes", message.name_bytes, 1, kNameBytesMax));
  if (!valid_channel_name(name_of(message)))
    return corrupt_message("name", "has forbidden characters");
  if (!zero_from(message.name, message.name_bytes))
    return corrupt_message("name", "goes on after its end");
  return {};
}

Result<void> check(const Hello& message) {
  VRAMLINK_CHECK(known("role", message.role, Role::observer));
  VRAMLINK_CHECK(is_zero("flags", message.flags & ~(kHelloStreamOrder | kHelloPidfd)));
  VRAMLINK_CHECK(check(message.process));
  if (message.role == Role::observer) {
    VRAMLINK_CHECK(is_zero("queue_depth", message.queue_depth));
    VRAMLINK_CHECK(is_zero("max_held", message.max_held));
    VRAMLINK_CHECK(is_zero("flags", message.flags & kHelloStreamOrder));
  } else {
    VRAMLINK_CHECK(at_most("queue_depth", message.queue_depth, kQueueDepthMax));
    VRAMLINK_CHECK(in_range("max_held", message.max_held, 1, kMaxHeldMax));
  }
  return check_name(message);
}

Result<void> check_payload(const Offer& message) {
  VRAMLINK_CHECK(in_range("slot_count", message.slot_count, kSlotCountMin, kSlotCountMax));
  VRAMLINK_CHECK(in_range("payload_bytes", message.payload_bytes, 1, kPayloadBytesMax));
  const auto used = base::checked_multiply(message.slot_pitch, message.slot_count);
  if (message.slot_pitch == 0 || !used || *used > message.payload_bytes) {
    return corrupt_message("slot_pitch", "is 0 or the slots do not fit payload_bytes");
  }
  return known("memory_kind", message.memory_kind, MemoryKind::legacy_handle);
}

Result<void> check(const Offer& message) {
  if (message.epoch == 0) return corrupt_message("epoch", "is 0");
  if (message.generation == 0) return corrupt_message("generation", "is 0");
  if (message.broadcast_bytes != kBroadcastBytes) {
    return unequal("broadcast_bytes", message.broadcast_bytes, kBroadcastBytes);
  }
  if (message.private_bytes == 0) {
    VRAMLINK_CHECK(is_zero("granted_depth", message.granted_depth));
    VRAMLINK_CHECK(is_zero("granted_max_held", message.granted_max_held));
  } else if (message.private_bytes != kPrivateBytes) {
    return unequal("private_bytes", message.private_bytes, kPrivateBytes);
  } else {
    VRAMLINK_CHECK(in_range("granted_max_held", message.granted_max_held, 1, kMaxHeldMax));
  }
  VRAMLINK_CHECK(check_payload(message));
  VRAMLINK_CHECK(at_most("granted_depth", message.granted_depth, message.slot_count - 1));
  return check(message.publisher);
}

Result<void> check_generation(std::uint64_t generation) {
  if (generation == 0) return corrupt_message("generation", "is 0");
  return {};
}

Result<void> check(const Mapped& message) { return check_generation(message.generation); }

Result<void> check(const Go& message) {
  VRAMLINK_CHECK(check_generation(message.generation));
  VRAMLINK_CHECK(in_range("first_ticket", message.first_ticket, 1, kTicketEnd - 1));
  return at_most("cursor", message.cursor, kSequenceEnd - 1);
}

Result<void> check(const Bye& message) {
  VRAMLINK_CHECK(check_generation(message.generation));
  VRAMLINK_CHECK(known("reason", message.reason, ByeReason::leaving));
  return is_zero("reserved", message.reserved);
}

Result<void> check(const Detached& message) { return check_generation(message.generation); }

Result<void> check(const Revoked& message) {
  VRAMLINK_CHECK(check_generation(message.generation));
  VRAMLINK_CHECK(known("reason", message.reason, RevokeReason::closed));
  return is_zero("reserved", message.reserved);
}

Result<void> check(const Failed& message) {
  VRAMLINK_CHECK(known_code("reason", message.reason));
  return is_zero("reserved", message.reserved);
}

Result<void> check(const Refused& message) {
  VRAMLINK_CHECK(known_code("code", message.code));
  if (message.peer_pid < 0) return corrupt_message("peer_pid", "is negative");
  const std::string_view text = until_zero(message.text);
  if (text.size() == message.text.size()) return corrupt_message("text", "has no end");
  if (!std::all_of(text.begin(), text.end(), printable)) {
    return corrupt_message("text", "is not printable ASCII");
  }
  if (!zero_from(message.text, text.size()))
    return corrupt_message("text", "goes on after its end");
  return {};
}

Result<void> check(const Query& message) {
  VRAMLINK_CHECK(known("what", message.what, QueryKind::status));
  return is_zero("reserved", message.reserved);
}

Result<void> check(const SubscriberStatus& entry) {
  // 0: the publisher does not see it from its pid namespace.
  if (entry.pid < 0) return corrupt_message("subscribers.pid", "is negative");
  VRAMLINK_CHECK(at_most("subscribers.depth", entry.depth, kQueueDepthMax));
  VRAMLINK_CHECK(at_most("subscribers.held", entry.held, kSlotCountMax));
  return is_zero("subscribers.flags",
                 entry.flags & ~(kStatusStreamOrdered | kStatusRevoked | kStatusDisconnected));
}

Result<void> check(const Status& message) {
  VRAMLINK_CHECK(is_zero("part", message.part));
  VRAMLINK_CHECK(in_range("parts", message.parts, 1, 1));
  VRAMLINK_CHECK(at_most("slot_count_max", message.slot_count_max, kSlotCountMax));
  VRAMLINK_CHECK(at_most("slots_lost", message.slots_lost, kSlotCountMax));
  VRAMLINK_CHECK(at_most("subscriber_count", message.subscriber_count, kSubscriberCountMax));
  VRAMLINK_CHECK(is_zero("reserved", message.reserved));
  for (std::size_t i = 0; i < message.subscriber_count; ++i) {
    VRAMLINK_CHECK(check(message.subscribers[i]));
  }
  return {};
}

constexpr bool known_type(MessageType type) noexcept {
  switch (type) {
#define VRAMLINK_X(Struct, enumerator, number, fd_min, fd_max) case MessageType::enumerator:
    VRAMLINK_WIRE_MESSAGES(VRAMLINK_X)
#undef VRAMLINK_X
    return true;
  }
  return false;
}

}  // namespace

std::string_view name(MessageType type) noexcept {
  switch (type) {
#define VRAMLINK_X(Struct, enumerator, number, fd_min, fd_max) \
  case MessageType::enumerator:                                \
    return #enumerator;
    VRAMLINK_WIRE_MESSAGES(VRAMLINK_X)
#undef VRAMLINK_X
  }
  return "unknown";
}

void fill_header(MessageHeader& header, MessageType type, std::size_t size_bytes,
                 std::uint32_t fd_count) noexcept {
  header = {kMessageMagic, static_cast<std::uint16_t>(kWireVersion), type,
            static_cast<std::uint32_t>(size_bytes), fd_count};
}

Result<MessageHeader> decode_header(std::span<const std::byte> bytes, std::size_t fds_received) {
  MessageHeader header{};
  if (bytes.size() < sizeof(header)) return corrupt_message("size", "shorter than a header");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMessageMagic) return corrupt_message("magic", "not a vramlink message");
  if (header.wire != kWireVersion) {
    return Error(Code::incompatible, kReadMessage)
        .about("wire")
        .because("the peer speaks wire version " + std::to_string(header.wire) + ", this process " +
                 std::to_string(kWireVersion))
        .remedy("use one version of vramlink on both sides")
        .numbers(header.wire, kWireVersion);
  }
  if (!known_type(header.type)) {
    return corrupt_message("type",
                           std::to_string(static_cast<unsigned>(header.type)) + " is no message");
  }
  if (header.size_bytes != bytes.size())
    return unequal("size_bytes", header.size_bytes, bytes.size());
  VRAMLINK_CHECK(at_most("size_bytes", header.size_bytes, kMessageBytesMax));
  if (header.fd_count != fds_received) return unequal("fd_count", header.fd_count, fds_received);
  VRAMLINK_CHECK(at_most("fd_count", header.fd_count, kMessageFdCountMax));
  return header;
}

template <class M>
Result<M> decode(std::span<const std::byte> bytes, std::size_t fds_received) {
  using Traits = MessageTraits<M>;
  const MessageHeader header = VRAMLINK_TRY(decode_header(bytes, fds_received));
  if (header.type != Traits::kType) {
    return corrupt_message("type",
                           std::string(name(header.type)) + " came instead of " + Traits::kName);
  }
  if (bytes.size() != sizeof(M)) return unequal("size_bytes", bytes.size(), sizeof(M));
  M message{};
  std::memcpy(&message, bytes.data(), sizeof(M));
  VRAMLINK_CHECK(check(message));
  const std::uint32_t wanted = expected_fd_count(message);
  if (header.fd_count != wanted) return unequal("fd_count", header.fd_count, wanted);
  return message;
}

#define VRAMLINK_X(Struct, enumerator, number, fd_min, fd_max) \
  template Result<Struct> decode<Struct>(std::span<const std::byte>, std::size_t);
VRAMLINK_WIRE_MESSAGES(VRAMLINK_X)
#undef VRAMLINK_X

std::string_view name_of(const Hello& message) noexcept {
  return {message.name.data(), std::min<std::size_t>(message.name_bytes, message.name.size())};
}

void set_name(Hello& message, std::string_view name) noexcept {
  VRAMLINK_ASSERT(valid_channel_name(name));
  message.name = {};
  std::copy(name.begin(), name.end(), message.name.begin());
  message.name_bytes = static_cast<std::uint32_t>(name.size());
}

std::string_view text_of(const Refused& message) noexcept { return until_zero(message.text); }

void set_text(Refused& message, std::string_view text) noexcept {
  message.text = {};
  const std::string_view kept = text.substr(0, message.text.size() - 1);
  std::transform(kept.begin(), kept.end(), message.text.begin(),
                 [](char c) { return printable(c) ? c : '?'; });
}

}  // namespace vramlink::wire
