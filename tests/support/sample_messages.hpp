// One valid message of each type, without two equal fields where that can be: a swap shows.
#pragma once

#include "wire/codec.hpp"

namespace vramlink::test {

inline wire::Uuid sample_uuid(std::uint8_t first) {
  wire::Uuid uuid{};
  for (auto& byte : uuid) byte = first++;
  return uuid;
}

inline wire::ProcessFacts sample_process() {
  return {sample_uuid(0x10), 0xf000'0001, 4711, 0, 123'456};
}

template <class M>
M sample();

template <>
inline wire::Hello sample() {
  wire::Hello message{};
  message.role = wire::Role::subscriber;
  message.flags = wire::kHelloStreamOrder | wire::kHelloPidfd;
  message.process = sample_process();
  message.queue_depth = 3;
  message.max_held = 2;
  message.driver_version = 12'080;
  message.device = sample_uuid(0xa0);
  wire::set_name(message, "cam0");
  return message;
}

template <>
inline wire::Offer sample() {
  wire::Offer message{};
  message.epoch = 0x1122'3344'5566'7788;
  message.generation = 2;
  message.broadcast_bytes = wire::kBroadcastBytes;
  message.private_bytes = wire::kPrivateBytes;
  message.payload_bytes = 4 << 20;
  message.slot_pitch = 1 << 20;
  message.slot_count = 4;
  message.memory_kind = wire::MemoryKind::memfd;
  message.granted_depth = 3;
  message.granted_max_held = 1;
  message.device = sample_uuid(0xa0);
  message.publisher = sample_process();
  return message;
}

template <>
inline wire::Mapped sample() {
  return {{}, 2};
}

template <>
inline wire::Go sample() {
  return {{}, 2, 17, 41};
}

template <>
inline wire::Bye sample() {
  return {{}, 2, wire::ByeReason::drained, 0};
}

template <>
inline wire::Detached sample() {
  return {{}, 2};
}

template <>
inline wire::Revoked sample() {
  return {{}, 2, wire::RevokeReason::lease, 0};
}

template <>
inline wire::Failed sample() {
  return {{}, static_cast<std::uint32_t>(Code::driver), 0};
}

template <>
inline wire::Refused sample() {
  wire::Refused message{};
  message.code = static_cast<std::uint32_t>(Code::resource_exhausted);
  message.peer_pid = 4711;
  message.numbers = {64, 65};
  wire::set_text(message, "64 subscribers are attached");
  return message;
}

template <>
inline wire::Query sample() {
  return {{}, wire::QueryKind::status, 0};
}

template <>
inline wire::Status sample() {
  wire::Status message{};
  message.parts = 1;
  message.published = 1000;
  message.published_bytes = 1000 << 20;
  message.refused_full = 5;
  message.timed_out = 6;
  message.abandoned = 7;
  message.subscribers_now = 2;
  message.subscribers_ever = 9;
  message.subscribers_died = 1;
  message.subscribers_revoked = 3;
  message.uptime_ns = 60'000'000'000;
  message.subscribers_evicted = 4;
  message.replacements = 2;
  message.growths = 1;
  message.legacy_imports = 6;
  message.slot_count_max = 16;
  message.slots_lost = 3;
  message.subscriber_count = 2;
  message.subscribers[0] = {4712, 3, 1, wire::kStatusStreamOrdered, 900, 50, 40, 2, 8};
  message.subscribers[1] = {4713, 0, 0, 0, 800, 0, 0, 1, 0};
  return message;
}

}  // namespace vramlink::test
