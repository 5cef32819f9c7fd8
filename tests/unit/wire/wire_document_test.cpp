// What docs/wire_format.md says about messages is printed from the code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "base/hex.hpp"
#include "support/printed_file.hpp"
#include "support/sample_messages.hpp"
#include "wire/layout_v1.hpp"

namespace vramlink::wire {
namespace {

constexpr const char* kPath = "docs/wire_format.md";

std::string row(const char* name, unsigned number, std::size_t size, unsigned fd_min,
                unsigned fd_max) {
  std::string text = "| " + std::to_string(number) + " | " + name + " | " + std::to_string(size);
  text += " | " + std::to_string(fd_min);
  if (fd_max != fd_min) text += " or " + std::to_string(fd_max);
  return text + " |\n";
}

TEST(WireDocument, ListsTheMessages) {
  std::string table = "\n| number | message | bytes | fds |\n|---|---|---|---|\n";
#define VRAMLINK_X(Struct, enumerator, number, fd_min, fd_max) \
  table += row(#enumerator, number, sizeof(Struct), fd_min, fd_max);
  VRAMLINK_WIRE_MESSAGES(VRAMLINK_X)
#undef VRAMLINK_X
  test::expect_printed_block(kPath, "messages", table + "\n");
}

// "0010  02 00 ..  |....|" for 16 bytes a line.
std::string dump(std::span<const std::byte> bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 16) {
    const auto line = bytes.subspan(at, std::min<std::size_t>(16, bytes.size() - at));
    base::append_hex(text, static_cast<std::uint8_t>(at >> 8));
    base::append_hex(text, static_cast<std::uint8_t>(at));
    text += " ";
    std::string printable;
    for (const std::byte each : line) {
      const auto c = static_cast<unsigned char>(each);
      text += " ";
      base::append_hex(text, c);
      printable += std::isprint(c) != 0 ? static_cast<char>(c) : '.';
    }
    text.append((16 - line.size()) * 3 + 2, ' ').append(printable).append("\n");
  }
  return text;
}

TEST(WireDocument, ListsTheFieldsOfSegments) {
  const std::string text = test::read_tree_file(kPath);
#define VRAMLINK_ROW(Struct, member, type)                                                        \
  EXPECT_NE(                                                                                      \
      text.find("| " + std::to_string(offsetof(Struct, member)) + " | " type " | " #member " |"), \
      std::string::npos)                                                                          \
      << #Struct "." #member
  VRAMLINK_ROW(Broadcast, magic, "u32");
  VRAMLINK_ROW(Broadcast, wire, "u32");
  VRAMLINK_ROW(Broadcast, bytes, "u64");
  VRAMLINK_ROW(Broadcast, epoch, "u64");
  VRAMLINK_ROW(Broadcast, generation, "u64");
  VRAMLINK_ROW(Broadcast, slot_count, "u32");
  VRAMLINK_ROW(Broadcast, reserved, "u32");
  VRAMLINK_ROW(Broadcast, slot_pitch, "u64");
  VRAMLINK_ROW(Broadcast, first_sequence, "u64");
  VRAMLINK_ROW(Broadcast, format, "768 bytes");
  VRAMLINK_ROW(Broadcast, newest, "u64");
  VRAMLINK_ROW(Broadcast, state, "u32");
  VRAMLINK_ROW(Broadcast, last_sequence, "u64");
  VRAMLINK_ROW(Broadcast, claim_waiters, "u32");
  VRAMLINK_ROW(Broadcast, recent, "u64[64]");
  VRAMLINK_ROW(SlotHeader, tag, "u64");
  VRAMLINK_ROW(SlotHeader, ticket, "u64");
  VRAMLINK_ROW(SlotHeader, publish_ns, "u64");
  VRAMLINK_ROW(SlotHeader, media_ns, "i64");
  VRAMLINK_ROW(SlotHeader, user_bytes, "u32");
  VRAMLINK_ROW(SlotHeader, flags, "u32");
  VRAMLINK_ROW(SlotHeader, user, "u64[32]");
  VRAMLINK_ROW(Private, first_ticket, "u64");
  VRAMLINK_ROW(Private, max_held, "u32");
  VRAMLINK_ROW(Private, depth, "u32");
  VRAMLINK_ROW(Private, bell, "u32");
  VRAMLINK_ROW(Private, cursor, "u64");
  VRAMLINK_ROW(Private, free_bell, "u32");
  VRAMLINK_ROW(Private, flags, "u32");
  VRAMLINK_ROW(Private, received, "u64");
  VRAMLINK_ROW(Private, skipped, "u64");
  VRAMLINK_ROW(Private, lost, "u64");
  VRAMLINK_ROW(Private, received_bytes, "u64");
#undef VRAMLINK_ROW
}

TEST(WireDocument, ShowsAnExample) {
  Hello hello = test::sample<Hello>();
  Go go = test::sample<Go>();
  const std::string text =
      "\nA subscriber asks for channel `cam0`, queue depth 3, at most 2 frames held, stream order, "
      "and\nsends its pidfd (fd_count 1). Its pid is 4711 = 0x1267, its driver version 12080 = "
      "0x2f30:\n\n```text\n" +
      dump(encode(hello)) +
      "```\n\nThe publisher's go for generation 2, first ticket 17, cursor 41:\n\n```text\n" +
      dump(encode(go)) + "```\n\n";
  test::expect_printed_block(kPath, "example", text);
}

}  // namespace
}  // namespace vramlink::wire
