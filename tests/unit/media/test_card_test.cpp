#include "../../../cli/media/test_card.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "../../../cli/media/picture.hpp"

namespace vramlink::cli::media {
namespace {

using Bytes = std::vector<std::byte>;

Bytes drawn(TestCard& card, std::uint64_t number) {
  Bytes frame(card.format().payload_bytes, std::byte{0x5a});
  card.draw(number, frame);
  return frame;
}

struct Case {
  PixelFormat pixel_format;
  std::uint64_t width;
  std::uint64_t height;
  std::uint64_t alignment;
};

class TestCards : public testing::TestWithParam<Case> {
 protected:
  TestCard card() const {
    const Case& each = GetParam();
    return TestCard::make(
               Format::image(each.pixel_format, each.width, each.height, each.alignment).value())
        .value();
  }
};

TEST_P(TestCards, EveryByteFollowsFromTheNumber) {
  TestCard artist = card();
  TestCard judge = card();
  for (const std::uint64_t number : {1U, 2U, 77U, 479U, 480U, 99'999'999U, 4'000'000'000U}) {
    const Bytes frame = drawn(artist, number);
    EXPECT_EQ(TestCard::number_of(frame), number);
    EXPECT_TRUE(judge.matches(number, frame));
    EXPECT_FALSE(judge.matches(number + 1, frame));
  }
}

TEST_P(TestCards, OneWrongSampleIsSeen) {
  TestCard each = card();
  Bytes frame = drawn(each, 5);
  const Format& format = each.format();
  for (std::uint32_t i = 0; i < format.plane_count; ++i) {
    const Plane& plane = format.planes[i];
    for (const std::uint64_t row : {std::uint64_t{0}, plane.row_count / 2, plane.row_count - 1}) {
      for (const std::uint64_t column : {std::uint64_t{0}, plane.row_bytes - 1}) {
        std::byte& sample = frame[plane.offset_bytes + row * plane.row_pitch_bytes + column];
        sample ^= std::byte{1};
        EXPECT_FALSE(each.matches(5, frame)) << i << " " << row << " " << column;
        sample ^= std::byte{1};
      }
    }
  }
  EXPECT_TRUE(each.matches(5, frame));
}

INSTANTIATE_TEST_SUITE_P(
    Formats, TestCards,
    testing::Values(Case{PixelFormat::rgba, 320, 180, 1}, Case{PixelFormat::bgra, 333, 97, 1},
                    Case{PixelFormat::rgb, 321, 181, 64}, Case{PixelFormat::argb, 64, 64, 1},
                    Case{PixelFormat::gray8, 200, 100, 32}, Case{PixelFormat::i420, 320, 180, 1},
                    Case{PixelFormat::i420, 321, 181, 1}, Case{PixelFormat::yv12, 160, 90, 16},
                    Case{PixelFormat::y42b, 161, 91, 1}, Case{PixelFormat::y444, 160, 90, 1},
                    Case{PixelFormat::nv12, 322, 182, 1}, Case{PixelFormat::nv21, 161, 91, 1},
                    Case{PixelFormat::rgba, 8, 8, 1}, Case{PixelFormat::i420, 9, 9, 1}));

TEST(TestCard, MovesAndShowsDifferentDigits) {
  auto card = TestCard::make(Format::image(PixelFormat::gray8, 320, 180).value()).value();
  const Bytes one = drawn(card, 1);
  const Bytes two = drawn(card, 2);
  const auto row = [](const Bytes& frame, std::size_t y) {
    return Bytes(frame.begin() + 320 * y, frame.begin() + 320 * (y + 1));
  };
  EXPECT_NE(row(one, 10), row(two, 10));    // bars
  EXPECT_NE(row(one, 110), row(two, 110));  // ramp
  bool digits_differ = false;
  for (std::size_t y = 126; y < 180; ++y) digits_differ |= row(one, y) != row(two, y);
  EXPECT_TRUE(digits_differ);
}

// The same picture through two formats looks the same.
TEST(TestCard, LooksTheSameInEveryFormat) {
  auto rgb = TestCard::make(Format::image(PixelFormat::rgb, 320, 180).value()).value();
  auto yuv = TestCard::make(Format::image(PixelFormat::y444, 320, 180).value()).value();
  const Picture first = to_picture(rgb.format(), drawn(rgb, 9)).value();
  const Picture second = to_picture(yuv.format(), drawn(yuv, 9)).value();
  ASSERT_EQ(first.pixels.size(), second.pixels.size());
  for (std::size_t i = 24; i < first.pixels.size(); ++i) {  // behind the number's bytes
    ASSERT_NEAR(first.pixels[i], second.pixels[i], 3) << i;
  }
}

TEST(TestCard, RefusesWhatItCannotDraw) {
  EXPECT_FALSE(TestCard::make(Format::image(PixelFormat::p010_10le, 320, 180).value()));
  EXPECT_FALSE(TestCard::make(Format::image(PixelFormat::rgba, 7, 8).value()));
  EXPECT_FALSE(TestCard::make(Format::bytes(100).value()));
}

}  // namespace
}  // namespace vramlink::cli::media
