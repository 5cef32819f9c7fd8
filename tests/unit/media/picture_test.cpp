#include "../../../cli/media/picture.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace vramlink::cli::media {
namespace {

using Bytes = std::vector<std::byte>;
using Pixel = std::array<int, 4>;

Bytes bytes(std::initializer_list<int> values) {
  Bytes result;
  for (const int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

Pixel pixel(const Picture& picture, std::size_t x, std::size_t y) {
  Pixel result{0, 0, 0, -1};
  for (std::size_t i = 0; i < picture.channels; ++i) {
    result[i] = picture.pixels[(y * picture.width + x) * picture.channels + i];
  }
  return result;
}

Picture convert(PixelFormat kind, std::uint64_t width, std::uint64_t height, const Bytes& frame,
                ColorMatrix matrix = ColorMatrix::unknown, ColorRange range = ColorRange::unknown) {
  Format format = Format::image(kind, width, height).value();
  format.color_matrix = matrix;
  format.color_range = range;
  return to_picture(format, frame).value();
}

TEST(Picture, PutsChannelsInOrder) {
  EXPECT_EQ(pixel(convert(PixelFormat::rgb, 1, 1, bytes({1, 2, 3})), 0, 0), (Pixel{1, 2, 3, -1}));
  EXPECT_EQ(pixel(convert(PixelFormat::bgr, 1, 1, bytes({1, 2, 3})), 0, 0), (Pixel{3, 2, 1, -1}));
  const Bytes four = bytes({1, 2, 3, 4});
  EXPECT_EQ(pixel(convert(PixelFormat::rgba, 1, 1, four), 0, 0), (Pixel{1, 2, 3, 4}));
  EXPECT_EQ(pixel(convert(PixelFormat::bgra, 1, 1, four), 0, 0), (Pixel{3, 2, 1, 4}));
  EXPECT_EQ(pixel(convert(PixelFormat::rgbx, 1, 1, four), 0, 0), (Pixel{1, 2, 3, -1}));
  EXPECT_EQ(pixel(convert(PixelFormat::bgrx, 1, 1, four), 0, 0), (Pixel{3, 2, 1, -1}));
  EXPECT_EQ(pixel(convert(PixelFormat::argb, 1, 1, four), 0, 0), (Pixel{2, 3, 4, 1}));
  EXPECT_EQ(pixel(convert(PixelFormat::abgr, 1, 1, four), 0, 0), (Pixel{4, 3, 2, 1}));
}

// Black, white and the primaries of BT.601 and BT.709 in limited range.
TEST(Picture, KnowsTheMatrices) {
  const auto color = [](int y, int u, int v, ColorMatrix matrix, ColorRange range) {
    return pixel(convert(PixelFormat::y444, 1, 1, bytes({y, u, v}), matrix, range), 0, 0);
  };
  const auto near = [](const Pixel& actual, const Pixel& expected) {
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(actual[i], expected[i], 2) << i;
  };
  using enum ColorMatrix;
  near(color(16, 128, 128, bt601, ColorRange::limited), {0, 0, 0});
  near(color(235, 128, 128, bt601, ColorRange::limited), {255, 255, 255});
  near(color(81, 90, 240, bt601, ColorRange::limited), {255, 0, 0});
  near(color(63, 102, 240, bt709, ColorRange::limited), {255, 0, 0});
  near(color(145, 54, 34, bt601, ColorRange::limited), {0, 255, 0});
  near(color(173, 42, 26, bt709, ColorRange::limited), {0, 255, 0});
  near(color(32, 240, 118, bt709, ColorRange::limited), {0, 0, 255});
  near(color(74, 97, 240, bt2020, ColorRange::limited), {255, 0, 0});
  near(color(76, 85, 255, bt601, ColorRange::full), {254, 0, 0});
  near(color(16, 128, 128, bt601, ColorRange::full), {16, 16, 16});
}

TEST(Picture, ChoosesTheMatrixByHeight) {
  Format format = Format::image(PixelFormat::i420, 2, 719).value();
  EXPECT_DOUBLE_EQ(luma_weights(format).red, 0.299);
  format.height = 720;
  EXPECT_DOUBLE_EQ(luma_weights(format).red, 0.2126);
  format.color_matrix = ColorMatrix::bt2020;
  EXPECT_DOUBLE_EQ(luma_weights(format).red, 0.2627);
}

// Left pixel red, right pixels white: where the samples are in each layout (BT.601, 3x1).
TEST(Picture, FindsTheSamplesOfEveryLayout) {
  const auto check = [](PixelFormat kind, const Bytes& frame) {
    const Picture picture = convert(kind, 3, 1, frame, ColorMatrix::bt601, ColorRange::limited);
    const Pixel left = pixel(picture, 0, 0);
    const Pixel right = pixel(picture, 2, 0);
    EXPECT_NEAR(left[0], 255, 2) << name(kind);
    EXPECT_NEAR(left[1], 0, 2) << name(kind);
    EXPECT_NEAR(left[2], 0, 2) << name(kind);
    EXPECT_EQ(right, (Pixel{255, 255, 255, -1})) << name(kind);
  };
  check(PixelFormat::i420, bytes({81, 81, 235, 90, 128, 240, 128}));
  check(PixelFormat::y42b, bytes({81, 81, 235, 90, 128, 240, 128}));
  check(PixelFormat::yv12, bytes({81, 81, 235, 240, 128, 90, 128}));
  check(PixelFormat::y444, bytes({81, 81, 235, 90, 90, 128, 240, 240, 128}));
  check(PixelFormat::nv12, bytes({81, 81, 235, 90, 240, 128, 128}));
  check(PixelFormat::nv16, bytes({81, 81, 235, 90, 240, 128, 128}));
  check(PixelFormat::nv21, bytes({81, 81, 235, 240, 90, 128, 128}));
  check(PixelFormat::yuy2, bytes({81, 90, 81, 240, 235, 128, 0, 128}));
  check(PixelFormat::uyvy, bytes({90, 81, 240, 81, 128, 235, 128, 0}));
  check(PixelFormat::p010_10le, bytes({0, 81, 0, 81, 0, 235, 0, 90, 0, 240, 0, 128, 0, 128}));
}

TEST(Picture, TakesGrayAsFullUnlessToldOtherwise) {
  EXPECT_EQ(pixel(convert(PixelFormat::gray8, 1, 1, bytes({16})), 0, 0), (Pixel{16, 16, 16, -1}));
  EXPECT_EQ(pixel(convert(PixelFormat::gray8, 1, 1, bytes({235}), ColorMatrix::unknown,
                          ColorRange::limited),
                  0, 0),
            (Pixel{255, 255, 255, -1}));
  EXPECT_EQ(pixel(convert(PixelFormat::gray16_le, 1, 1, bytes({0xff, 0x7f})), 0, 0)[0], 127);
}

TEST(Picture, CutsWideSamples) {
  EXPECT_EQ(
      pixel(convert(PixelFormat::rgba64_le, 1, 1, bytes({0, 0, 0xff, 0xff, 0, 0x80, 0xff, 0xff})),
            0, 0),
      (Pixel{0, 255, 128, 255}));
  // 1, -2, not-a-number, 0.5 as halves.
  EXPECT_EQ(pixel(convert(PixelFormat::rgba_f16, 1, 1, bytes({0, 0x3c, 0, 0xc0, 1, 0x7e, 0, 0x38})),
                  0, 0),
            (Pixel{255, 0, 0, 128}));
  Bytes floats;
  for (const float value : {2.0F, 0.25F, -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::infinity()}) {
    const auto word = std::bit_cast<std::array<std::byte, 4>>(value);
    floats.insert(floats.end(), word.begin(), word.end());
  }
  EXPECT_EQ(pixel(convert(PixelFormat::rgba_f32, 1, 1, floats), 0, 0), (Pixel{255, 64, 0, 255}));
}

TEST(Picture, TurnsBottomUpRows) {
  Format format = Format::image(PixelFormat::gray8, 1, 3).value();
  format.row_order = RowOrder::bottom_up;
  const Picture picture = to_picture(format, bytes({1, 2, 3})).value();
  EXPECT_EQ(pixel(picture, 0, 0)[0], 3);
  EXPECT_EQ(pixel(picture, 0, 2)[0], 1);
}

TEST(Picture, SkipsRowPadding) {
  const Format format = Format::image(PixelFormat::gray8, 1, 2, 4).value();
  const Picture picture = to_picture(format, bytes({1, 9, 9, 9, 2, 9, 9, 9})).value();
  EXPECT_EQ(pixel(picture, 0, 1)[0], 2);
}

TEST(Picture, RefusesTensorsAndShortFrames) {
  const std::array<std::uint64_t, 2> shape{4, 4};
  const Format tensor = Format::tensor(DType::float32, shape).value();
  EXPECT_TRUE(to_picture(tensor, Bytes(64)).failed_with(Code::invalid_argument));
  const Format image = Format::image(PixelFormat::rgb, 4, 4).value();
  EXPECT_TRUE(to_picture(image, Bytes(47)).failed_with(Code::corrupt));
  Format wide = Format::image(PixelFormat::gray8, 70'000, 1).value();
  EXPECT_TRUE(to_picture(wide, Bytes(70'000)).failed_with(Code::unsupported));
}

}  // namespace
}  // namespace vramlink::cli::media
