#include "../../../cli/media/png_file.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "temporary_folder.hpp"

namespace vramlink::cli::media {
namespace {

using test::TemporaryFolder;

Picture gradient(std::uint32_t width, std::uint32_t height, std::uint32_t channels, int seed) {
  Picture picture{width, height, channels, {}};
  for (std::size_t i = 0; i < std::size_t{width} * height * channels; ++i) {
    picture.pixels.push_back(static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(seed)));
  }
  return picture;
}

std::vector<std::uint8_t> next_frame(FrameSource& source) {
  if (!source.next().value()) return {};
  std::vector<std::uint8_t> frame(source.format().payload_bytes);
  source.read(std::as_writable_bytes(std::span(frame))).value();
  return frame;
}

TEST(PngFile, ReadsWhatItWrites) {
  const TemporaryFolder folder;
  for (const std::uint32_t channels : {3U, 4U}) {
    const Picture picture = gradient(13, 7, channels, 3);
    const std::string path = folder.path("a.png");
    ASSERT_TRUE(write_png(path, picture));
    auto source = open_png_sequence({path}).value();
    EXPECT_EQ(source->format().pixel_format, channels == 3 ? PixelFormat::rgb : PixelFormat::rgba);
    EXPECT_EQ(next_frame(*source), picture.pixels);
    EXPECT_FALSE(source->next().value());
    ASSERT_TRUE(source->rewind());
    EXPECT_EQ(next_frame(*source), picture.pixels);
  }
}

TEST(PngFile, CountsThroughPatterns) {
  EXPECT_EQ(expand_png_pattern("a%04d.png", 7), "a0007.png");
  EXPECT_EQ(expand_png_pattern("a%d.png", 12), "a12.png");
  EXPECT_EQ(expand_png_pattern("%02dx", 123), "123x");
  for (const char* path : {"a.png", "a%s.png", "a%n.png", "a%", "a%04", "a%99d.png", "100%.png"}) {
    EXPECT_FALSE(is_png_pattern(path)) << path;
  }
  const TemporaryFolder folder;
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(write_png(folder.path("f0" + std::to_string(i) + ".png"), gradient(4, 4, 3, i)));
  }
  ASSERT_TRUE(write_png(folder.path("f05.png"), gradient(4, 4, 3, 5)));
  auto source = open_png_sequence({folder.path("f%02d.png")}).value();
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(next_frame(*source), gradient(4, 4, 3, i).pixels);
  EXPECT_FALSE(source->next().value());
  EXPECT_TRUE(open_png_sequence({folder.path("g%d.png")}).failed_with(Code::invalid_argument));
}

TEST(PngFile, RefusesPicturesThatDiffer) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_png(folder.path("a.png"), gradient(4, 4, 3, 0)));
  ASSERT_TRUE(write_png(folder.path("b.png"), gradient(4, 5, 3, 0)));
  auto source = open_png_sequence({folder.path("a.png"), folder.path("b.png")}).value();
  std::vector<std::byte> frame(source->format().payload_bytes);
  ASSERT_TRUE(source->next().value());
  ASSERT_TRUE(source->read(frame));
  ASSERT_TRUE(source->next().value());
  const auto read = source->read(frame);
  ASSERT_TRUE(read.failed_with(Code::invalid_argument));
  EXPECT_NE(to_string(read.error()).find("b.png"), std::string::npos);
}

TEST(PngFile, SurvivesBrokenFiles) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_png(folder.path("a.png"), gradient(16, 16, 4, 0)));
  const std::string good = test::read_file(folder.path("a.png"));
  for (std::size_t i = 0; i < good.size(); i += i < 48 ? 3 : 97) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    for (const std::string& content : {bad, good.substr(0, i)}) {
      auto source = open_png_sequence({folder.write("b.png", content)});
      if (!source) continue;
      ASSERT_LT((*source)->format().payload_bytes, std::uint64_t{1} << 40);
      if ((*source)->format().payload_bytes > (1U << 20)) continue;
      std::vector<std::byte> frame((*source)->format().payload_bytes);
      static_cast<void>((*source)->next().value());
      static_cast<void>(!(*source)->read(frame));
    }
  }
}

}  // namespace
}  // namespace vramlink::cli::media
