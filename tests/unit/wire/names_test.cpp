#include "wire/names.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vramlink::wire {
namespace {

TEST(ChannelName, AllowsWhatFileNamesLike) {
  static_assert(valid_channel_name("cam0"));
  EXPECT_TRUE(valid_channel_name("A.b_c@d+e-9"));
  EXPECT_TRUE(valid_channel_name("-"));
  EXPECT_TRUE(valid_channel_name(std::string(120, 'x')));
}

TEST(ChannelName, RefusesTheRest) {
  EXPECT_FALSE(valid_channel_name(""));
  EXPECT_FALSE(valid_channel_name("."));
  EXPECT_FALSE(valid_channel_name(".."));
  EXPECT_FALSE(valid_channel_name(".hidden"));
  EXPECT_FALSE(valid_channel_name(std::string(121, 'x')));
  EXPECT_FALSE(valid_channel_name(std::string("a\0b", 3)));
  for (int c = 0; c < 256; ++c) {
    const std::string name = std::string("a") + static_cast<char>(c);
    const bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool mark =
        c != 0 && std::string_view("._@+-").find(static_cast<char>(c)) != std::string_view::npos;
    EXPECT_EQ(valid_channel_name(name), letter || mark) << c;
  }
}

}  // namespace
}  // namespace vramlink::wire
