#include <gtest/gtest.h>

#include <set>
#include <string>

#include <vramlink/format.hpp>

#include "base/format_table.hpp"

namespace vramlink {
namespace {

std::string upper(std::string_view text) {
  std::string copy(text);
  for (char& c : copy) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return copy;
}

TEST(DTypeNames, RoundTripWithEveryAlias) {
  std::set<std::string_view> seen;
  for (const base::DTypeRow& row : base::dtype_table()) {
    EXPECT_EQ(name(row.dtype), row.name);
    EXPECT_EQ(bits(row.dtype), row.bits);
    EXPECT_EQ(parse_dtype(row.name).value(), row.dtype);
    EXPECT_TRUE(seen.insert(row.name).second) << row.name;
    for (const auto alias : row.aliases) {
      if (alias.empty()) continue;
      EXPECT_EQ(parse_dtype(alias).value(), row.dtype) << alias;
      EXPECT_TRUE(seen.insert(alias).second) << alias << " means two things";
    }
  }
  EXPECT_EQ(seen.count("float8_e8m0fnu"), 1U);
}

TEST(DTypeNames, KnowWhatFrameworksPrint) {
  EXPECT_EQ(parse_dtype("torch.bfloat16").value(), DType::bfloat16);
  EXPECT_EQ(parse_dtype("numpy.uint8").value(), DType::uint8);
  EXPECT_EQ(parse_dtype("<f4").value(), DType::float32);
  EXPECT_EQ(parse_dtype("|u1").value(), DType::uint8);
  EXPECT_EQ(parse_dtype("=i8").value(), DType::int64);
  EXPECT_EQ(parse_dtype("half").value(), DType::float16);
}

TEST(DTypeNames, RefuseTheRest) {
  for (const char* bad : {"", "<", "f16", "byte", ">f4", "float31", "U1", "unknown", "torch."}) {
    EXPECT_TRUE(parse_dtype(bad).failed_with(Code::invalid_argument)) << bad;
  }
  EXPECT_EQ(parse_dtype("flaot32").error().facts()->remedy, "'float32'");
  EXPECT_EQ(name(static_cast<DType>(0)), "unknown");
  EXPECT_EQ(name(static_cast<DType>(22)), "unknown");
  EXPECT_EQ(bits(static_cast<DType>(22)), 0U);
}

TEST(PixelFormatNames, RoundTripInAnyCaseWithEveryAlias) {
  std::set<std::string> seen;
  for (const base::PixelRow& row : base::pixel_table()) {
    EXPECT_EQ(name(row.pixel_format), row.name);
    EXPECT_EQ(parse_pixel_format(row.name).value(), row.pixel_format);
    EXPECT_EQ(parse_pixel_format(upper(row.name)).value(), row.pixel_format);
    EXPECT_TRUE(seen.insert(upper(row.name)).second) << row.name;
    for (const auto alias : row.aliases) {
      if (alias.empty()) continue;
      EXPECT_EQ(parse_pixel_format(upper(alias)).value(), row.pixel_format) << alias;
      EXPECT_TRUE(seen.insert(upper(alias)).second) << alias << " means two things";
    }
  }
}

TEST(PixelFormatNames, KnowOtherTools) {
  EXPECT_EQ(parse_pixel_format("mono16").value(), PixelFormat::gray16_le);  // ROS
  EXPECT_EQ(parse_pixel_format("yuv420p").value(), PixelFormat::i420);      // FFmpeg
  EXPECT_EQ(parse_pixel_format("BGRA8Fixed").value(), PixelFormat::bgra);   // TouchDesigner
  EXPECT_EQ(parse_pixel_format("p010le").value(), PixelFormat::p010_10le);
}

TEST(PixelFormatNames, RefuseTheRestAndSuggest) {
  for (const char* bad : {"", "none", "unknown", "32FC1", "RGBA "}) {
    EXPECT_TRUE(parse_pixel_format(bad).failed_with(Code::invalid_argument)) << bad;
  }
  EXPECT_EQ(parse_pixel_format("RGGA").error().facts()->remedy, "'RGBA'");
  EXPECT_EQ(parse_pixel_format("nv11").error().facts()->remedy, "'NV12'");
  EXPECT_EQ(parse_pixel_format("").error().facts()->remedy, "a name such as 'GRAY8'");
  EXPECT_EQ(parse_pixel_format(std::string(100000, 'x')).error().facts()->subject.size(), 64U);
  EXPECT_EQ(name(PixelFormat::none), "none");
  EXPECT_EQ(name(static_cast<PixelFormat>(999)), "unknown");
}

TEST(ColorMatrixNames, AreStatic) {
  EXPECT_EQ(name(ColorMatrix::unknown), "unknown");
  EXPECT_EQ(name(ColorMatrix::rgb), "rgb");
  EXPECT_EQ(name(ColorMatrix::bt601), "bt601");
  EXPECT_EQ(name(ColorMatrix::bt709), "bt709");
  EXPECT_EQ(name(ColorMatrix::bt2020), "bt2020");
  EXPECT_EQ(name(static_cast<ColorMatrix>(77)), "unknown");
}

TEST(FormatText, SaysWhatPeopleSay) {
  EXPECT_EQ(to_string(Format::image(PixelFormat::rgba, 1920, 1080).value()), "RGBA 1920x1080");
  EXPECT_EQ(
      to_string(Format::tensor(DType::float32, std::array<std::uint64_t, 3>{3, 224, 224}).value()),
      "float32 [3, 224, 224]");
  EXPECT_EQ(to_string(Format::tensor(DType::int8, {}).value()), "int8 []");
  Format unchecked;
  unchecked.rank = 1000;
  EXPECT_EQ(to_string(unchecked), "uint8 [0, 0, 0, 0, 0, 0, 0, 0]");
}

}  // namespace
}  // namespace vramlink
