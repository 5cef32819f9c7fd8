#include "os/lock_text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vramlink {
namespace {

using os::format_lock_text;
using os::LockFile;
using os::parse_lock_text;

LockFile::Owner example() {
  LockFile::Owner owner;
  owner.name = "cam0";
  for (std::uint8_t i = 0; i < 16; ++i)
    owner.identity.boot_id[i] = static_cast<std::uint8_t>(17 * i);
  owner.identity.pid_namespace = 4026531836;
  owner.identity.pid = 4242;
  owner.identity.start_time_ticks = 123456;
  return owner;
}

constexpr char kExample[] =
    "vramlink lock 1\n"
    "name=cam0\n"
    "boot=00112233445566778899aabbccddeeff\n"
    "pidns=4026531836\n"
    "pid=4242\n"
    "start=123456\n";

TEST(LockText, IsWhatTheFormatSays) { EXPECT_EQ(format_lock_text(example()).value(), kExample); }

TEST(LockText, ComesBack) {
  const auto owner = parse_lock_text(kExample);
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->name, "cam0");
  EXPECT_EQ(owner->identity, example().identity);
}

TEST(LockText, NamesAreOnePrintableLine) {
  LockFile::Owner owner = example();
  for (const std::string& good : {std::string("a=b"), std::string(os::kLockNameMaxBytes, 'n')}) {
    owner.name = good;
    const auto text = format_lock_text(owner);
    ASSERT_TRUE(text);
    EXPECT_LE(text->size(), os::kLockTextMaxBytes);
    EXPECT_EQ(parse_lock_text(*text)->name, good);
  }
  for (const std::string& bad : {std::string(), std::string("a\nb"), std::string("a\0b", 3),
                                 std::string(os::kLockNameMaxBytes + 1, 'n')}) {
    owner.name = bad;
    EXPECT_TRUE(format_lock_text(owner).failed_with(Code::invalid_argument));
  }
}

TEST(LockText, EveryShorterTextIsRefused) {
  const std::string text = kExample;
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(parse_lock_text(text.substr(0, size))) << size;
  }
}

TEST(LockText, OtherTextIsRefused) {
  const std::string text = kExample;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  EXPECT_FALSE(parse_lock_text(text + "more=1\n"));
  EXPECT_FALSE(parse_lock_text(with("lock 1", "lock 2")));
  EXPECT_FALSE(parse_lock_text(with("name=", "mane=")));
  EXPECT_FALSE(parse_lock_text(with("name=cam0", "name")));
  EXPECT_FALSE(parse_lock_text(with("cam0", "")));
  EXPECT_FALSE(parse_lock_text(with("cam0", "c\ta")));
  EXPECT_FALSE(parse_lock_text(with("00112233", "0011223")));
  EXPECT_FALSE(parse_lock_text(with("00112233", "0011223g")));
  EXPECT_FALSE(parse_lock_text(with("4026531836", "-1")));
  EXPECT_FALSE(parse_lock_text(with("4242", "0")));
  EXPECT_FALSE(parse_lock_text(with("4242", "-5")));
  EXPECT_FALSE(parse_lock_text(with("4242", "99999999999")));
  EXPECT_FALSE(parse_lock_text(with("123456", "12 3456")));
  EXPECT_FALSE(parse_lock_text(with("123456", "0x10")));
  EXPECT_FALSE(parse_lock_text(with("cam0", std::string(os::kLockTextMaxBytes, 'n'))));
}

}  // namespace
}  // namespace vramlink
