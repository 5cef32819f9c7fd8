#include "../../../cli/media/y4m_header.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace vramlink::cli::media {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Y4mHeader, ReadsWhatFfmpegWrites) {
  const auto format = parse_y4m_header(
      "YUV4MPEG2 W320 H240 F30000:1001 Ip A1:1 C420mpeg2 XYSCSS=420MPEG2 XCOLORRANGE=LIMITED", "x");
  ASSERT_TRUE(format);
  EXPECT_EQ(format->pixel_format, PixelFormat::i420);
  EXPECT_EQ(format->width, 320U);
  EXPECT_EQ(format->height, 240U);
  EXPECT_EQ(format->rate_numerator, 30000U);
  EXPECT_EQ(format->rate_denominator, 1001U);
  EXPECT_EQ(format->color_range, ColorRange::limited);
  EXPECT_EQ(format->payload_bytes, 320U * 240 * 3 / 2);
}

TEST(Y4mHeader, KnowsEverySampling) {
  const auto kind = [](const std::string& tag) {
    auto format = parse_y4m_header("YUV4MPEG2 W3 H3 F1:1 C" + tag, "x");
    return format ? format->pixel_format : PixelFormat::none;
  };
  for (const char* tag : {"420", "420jpeg", "420mpeg2", "420paldv"}) {
    EXPECT_EQ(kind(tag), PixelFormat::i420) << tag;
  }
  EXPECT_EQ(kind("422"), PixelFormat::y42b);
  EXPECT_EQ(kind("444"), PixelFormat::y444);
  EXPECT_EQ(kind("mono"), PixelFormat::gray8);
  const auto untold = parse_y4m_header("YUV4MPEG2 W3 H3", "x");
  ASSERT_TRUE(untold);
  EXPECT_EQ(untold->pixel_format, PixelFormat::i420);
  EXPECT_EQ(untold->payload_bytes, 9U + 4 + 4);
  EXPECT_EQ(untold->rate_numerator, 0U);
}

TEST(Y4mHeader, SaysWhatToDoAboutKindsThatDoNotFit) {
  for (const char* text : {"YUV4MPEG2 W4 H4 F1:1 C420p10 XYSCSS=420P10", "YUV4MPEG2 W4 H4 C411",
                           "YUV4MPEG2 W4 H4 It C420", "YUV4MPEG2 W4 H4 Ib", "YUV4MPEG2 W4 H4 Im",
                           "YUV4MPEG2 W4 H4 C444alpha", "YUV4MPEG2 W4 H4 Cmono16"}) {
    const auto format = parse_y4m_header(text, "clip.y4m");
    ASSERT_TRUE(format.failed_with(Code::unsupported)) << text;
    EXPECT_NE(to_string(format.error()).find("clip.y4m"), std::string::npos);
    EXPECT_FALSE(format.error().facts()->remedy.empty());
  }
}

TEST(Y4mHeader, RefusesBrokenNumbers) {
  for (const char* text :
       {"", "YUV4MPEG", "YUV4MPEG2", "YUV4MPEG2X W4 H4", "YUV4MPEG2 W4", "YUV4MPEG2 H4",
        "YUV4MPEG2 W0 H4", "YUV4MPEG2 W-4 H4", "YUV4MPEG2 W+4 H4", "YUV4MPEG2 W4x H4",
        "YUV4MPEG2 W H4", "YUV4MPEG2 W4 H99999999999999999999", "YUV4MPEG2 W4 H4 F25",
        "YUV4MPEG2 W4 H4 F25:", "YUV4MPEG2 W4 H4 F25:0", "YUV4MPEG2 W4 H4 F99999999999:1",
        "YUV4MPEG2 W18446744073709551615 H18446744073709551615",
        "YUV4MPEG2 W4294967296 H4294967296"}) {
    EXPECT_TRUE(parse_y4m_header(text, "x").failed_with(Code::corrupt)) << text;
  }
}

TEST(Y4mHeader, MakesOneForEveryFormatThatItCanHold) {
  for (const PixelFormat kind :
       {PixelFormat::i420, PixelFormat::y42b, PixelFormat::y444, PixelFormat::gray8}) {
    Format format = Format::image(kind, 5, 3).value();
    format.rate_numerator = 24;
    format.color_range = ColorRange::full;
    const auto header = make_y4m_header(format);
    ASSERT_TRUE(header);
    const auto again = parse_y4m_header(*header, "x");
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, format) << *header;
  }
  for (const PixelFormat kind : {PixelFormat::rgba, PixelFormat::p010_10le, PixelFormat::yuy2}) {
    const auto header = make_y4m_header(Format::image(kind, 4, 4).value());
    ASSERT_TRUE(header.failed_with(Code::invalid_argument));
    EXPECT_NE(header.error().facts()->remedy.find("--raw"), std::string::npos);
  }
}

TEST(Y4mNote, TravelsWhole) {
  const Format format = parse_y4m_header("YUV4MPEG2 W4 H2 F30:1 C420jpeg", "x").value();
  const Y4mNote note{"YUV4MPEG2 W4 H2 F30:1 Ip A1:1 C420mpeg2 XA=b", " Ixyz"};
  bool shortened = false;
  const std::string packed = note.pack(shortened);
  EXPECT_FALSE(shortened);
  const auto again = Y4mNote::unpack(bytes_of(packed), format);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->header, note.header);
  EXPECT_EQ(again->frame_parameters, note.frame_parameters);
}

TEST(Y4mNote, LeavesOutCommentsThatDoNotFit) {
  Y4mNote note{"YUV4MPEG2 W4 H2 F30:1 XSHORT=1 X" + std::string(300, 'a') + " C420", {}};
  bool shortened = false;
  EXPECT_EQ(note.pack(shortened), "YUV4MPEG2 W4 H2 F30:1 XSHORT=1 C420");
  EXPECT_TRUE(shortened);
  note.header = "YUV4MPEG2 W4 H2 Q" + std::string(300, 'a');
  EXPECT_EQ(note.pack(shortened), "");
}

TEST(Y4mNote, TakesTheRateOfTheChannel) {
  Format format = parse_y4m_header("YUV4MPEG2 W4 H2 C420", "x").value();
  format.rate_numerator = 60;
  const auto note = Y4mNote::unpack(bytes_of("YUV4MPEG2 W4 H2 F30:1 Ip"), format);
  ASSERT_TRUE(note);
  EXPECT_EQ(note->header, "YUV4MPEG2 W4 H2 F60:1 Ip");
}

TEST(Y4mNote, IgnoresWhatIsNotOne) {
  const Format format = Format::image(PixelFormat::i420, 4, 2).value();
  for (const std::string& text :
       {std::string(), std::string("hello"), std::string("YUV4MPEG2 W4 H4 C420"),
        std::string("YUV4MPEG2 W4 H2 C444"), std::string("YUV4MPEG2 W4 H2\nFRAME"),
        std::string("YUV4MPEG2 W4 H2 X\x01"), std::string("YUV4MPEG2 W4 H2\n a\nb"),
        std::string(256, '\xff')}) {
    EXPECT_FALSE(Y4mNote::unpack(bytes_of(text), format)) << text;
  }
}

// No text, however broken, may do worse than be refused.
TEST(Y4mHeader, SurvivesRandomChanges) {
  const std::string good = "YUV4MPEG2 W320 H240 F30000:1001 Ip A1:1 C420jpeg XCOLORRANGE=FULL";
  std::mt19937 random(1);
  const std::string_view alphabet = "YUV4WHFICAX:0123456789 =pjm-\n\t\xff";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good.substr(0, random() % (good.size() + 1));
    for (unsigned change = random() % 6; change > 0 && !text.empty(); --change) {
      text[random() % text.size()] = alphabet[random() % alphabet.size()];
    }
    const auto format = parse_y4m_header(text, "x");
    if (!format) continue;
    EXPECT_TRUE(validate(*format));
    static_cast<void>(Y4mNote::unpack(bytes_of(text), *format));
  }
}

}  // namespace
}  // namespace vramlink::cli::media
