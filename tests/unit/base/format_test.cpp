#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include <vramlink/format.hpp>

#include "support/random_format.hpp"

namespace vramlink {
namespace {

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

Format rgba(std::uint64_t width = 1920, std::uint64_t height = 1080, std::uint64_t alignment = 1) {
  return Format::image(PixelFormat::rgba, width, height, alignment).value();
}

TEST(FormatImage, OnePlaneIsAlsoATensor) {
  const Format format = rgba(5, 3, 64);
  EXPECT_EQ(format.dtype, DType::uint8);
  EXPECT_EQ(format.rank, 3U);
  EXPECT_EQ(format.shape[0], 3U);
  EXPECT_EQ(format.shape[1], 5U);
  EXPECT_EQ(format.shape[2], 4U);
  EXPECT_EQ(format.strides[0], 64);
  EXPECT_EQ(format.strides[1], 4);
  EXPECT_EQ(format.strides[2], 1);
  EXPECT_EQ(format.plane_count, 1U);
  EXPECT_EQ(format.planes[0], (Plane{0, 64, 20, 3}));
  EXPECT_EQ(format.payload_bytes, 192U);
}

TEST(FormatImage, StridesCountElements) {
  const Format format = Format::image(PixelFormat::rgba_f16, 10, 2, 256).value();
  EXPECT_EQ(format.dtype, DType::float16);
  EXPECT_EQ(format.planes[0], (Plane{0, 256, 80, 2}));
  EXPECT_EQ(format.strides[0], 128);
}

TEST(FormatImage, OddSizesRoundChromaUp) {
  const Format format = Format::image(PixelFormat::i420, 5, 3).value();
  EXPECT_EQ(format.planes[0], (Plane{0, 5, 5, 3}));
  EXPECT_EQ(format.planes[1], (Plane{15, 3, 3, 2}));
  EXPECT_EQ(format.planes[2], (Plane{21, 3, 3, 2}));
  EXPECT_EQ(format.payload_bytes, 27U);
  EXPECT_EQ(format.dtype, DType::uint8);
  EXPECT_EQ(format.rank, 1U);
  EXPECT_EQ(format.shape[0], 27U);
  const Format packed = Format::image(PixelFormat::yuy2, 5, 1).value();
  EXPECT_EQ(packed.planes[0], (Plane{0, 12, 12, 1}));
  EXPECT_EQ(packed.shape[2], 2U);
  EXPECT_TRUE(validate(packed));
}

// payload bytes of a 1920x1080 picture: width * height * bits / 8.
TEST(FormatImage, KnownSizes) {
  const std::uint64_t pixels = std::uint64_t{1920} * 1080;
  const auto size = [](PixelFormat each) { return Format::image(each, 1920, 1080)->payload_bytes; };
  EXPECT_EQ(size(PixelFormat::gray8), pixels);
  EXPECT_EQ(size(PixelFormat::gray16_le), pixels * 2);
  for (const auto each :
       {PixelFormat::rgb, PixelFormat::bgr, PixelFormat::y444, PixelFormat::p010_10le}) {
    EXPECT_EQ(size(each), pixels * 3) << name(each);
  }
  for (const auto each : {PixelFormat::rgba, PixelFormat::bgra, PixelFormat::rgbx,
                          PixelFormat::bgrx, PixelFormat::argb, PixelFormat::abgr}) {
    EXPECT_EQ(size(each), pixels * 4) << name(each);
  }
  for (const auto each :
       {PixelFormat::i420, PixelFormat::yv12, PixelFormat::nv12, PixelFormat::nv21}) {
    EXPECT_EQ(size(each), pixels * 3 / 2) << name(each);
  }
  for (const auto each :
       {PixelFormat::y42b, PixelFormat::nv16, PixelFormat::yuy2, PixelFormat::uyvy}) {
    EXPECT_EQ(size(each), pixels * 2) << name(each);
  }
  EXPECT_EQ(size(PixelFormat::rgba64_le), pixels * 8);
  EXPECT_EQ(size(PixelFormat::rgba_f16), pixels * 8);
  EXPECT_EQ(size(PixelFormat::rgba_f32), pixels * 16);
}

TEST(FormatImage, RefusesWhatCannotBe) {
  const auto refused = [](PixelFormat format, std::uint64_t width, std::uint64_t height,
                          std::uint64_t alignment) {
    return Format::image(format, width, height, alignment).failed_with(Code::invalid_argument);
  };
  EXPECT_TRUE(refused(PixelFormat::none, 1, 1, 1));
  EXPECT_TRUE(refused(static_cast<PixelFormat>(999), 1, 1, 1));
  EXPECT_TRUE(refused(PixelFormat::rgba, 0, 1, 1));
  EXPECT_TRUE(refused(PixelFormat::rgba, 1, 0, 1));
  EXPECT_TRUE(refused(PixelFormat::rgba, 1, 1, 0));
  EXPECT_TRUE(refused(PixelFormat::rgba, 1, 1, 3));
  EXPECT_TRUE(refused(PixelFormat::rgba, kHuge, 1, 1));
  EXPECT_TRUE(refused(PixelFormat::rgba, kHuge / 4, 2, 1));
  EXPECT_TRUE(refused(PixelFormat::gray8, kHuge, 1, 256));
  EXPECT_TRUE(refused(PixelFormat::gray8, kHuge / 2 + 1, 1, 1));
  EXPECT_TRUE(refused(PixelFormat::y444, kHuge / 2, 1, 1));
}

TEST(FormatTensor, IsRowMajor) {
  const Format format =
      Format::tensor(DType::float32, std::array<std::uint64_t, 3>{3, 224, 225}).value();
  EXPECT_EQ(format.strides[0], 224 * 225);
  EXPECT_EQ(format.strides[1], 225);
  EXPECT_EQ(format.strides[2], 1);
  EXPECT_EQ(format.payload_bytes, 3U * 224 * 225 * 4);
  EXPECT_TRUE(validate(format));
}

TEST(FormatTensor, RankZeroIsOneElement) {
  const Format format = Format::tensor(DType::complex128, {}).value();
  EXPECT_EQ(format.payload_bytes, 16U);
  EXPECT_TRUE(validate(format));
}

TEST(FormatTensor, HalfBytesRoundUp) {
  EXPECT_EQ(Format::tensor(DType::float4_e2m1fn, std::array<std::uint64_t, 1>{7})->payload_bytes,
            4U);
}

TEST(FormatTensor, RefusesWhatCannotBe) {
  using Shape = std::vector<std::uint64_t>;
  const auto refused = [](DType dtype, const Shape& shape) {
    return Format::tensor(dtype, shape).failed_with(Code::invalid_argument);
  };
  EXPECT_TRUE(refused(static_cast<DType>(0), {1}));
  EXPECT_TRUE(refused(DType::int8, Shape(9, 1)));
  EXPECT_TRUE(refused(DType::int8, {1, 0}));
  EXPECT_TRUE(refused(DType::int8, {kHuge, 2}));
  EXPECT_TRUE(refused(DType::int8, {kHuge}));
  EXPECT_TRUE(refused(DType::float64, {kHuge / 4}));
}

TEST(FormatBytes, IsFlat) {
  EXPECT_TRUE(validate(Format::bytes(1).value()));
  EXPECT_TRUE(validate(Format::bytes(kHuge).value()));
  EXPECT_TRUE(Format::bytes(0).failed_with(Code::invalid_argument));
}

// Breaks one field and expects to read its name.
void expect_refused(Format format, const std::string& field,
                    const std::function<void(Format&)>& change) {
  ASSERT_TRUE(validate(format)) << to_string(validate(format).error());
  change(format);
  const Result<void> result = validate(format);
  ASSERT_TRUE(result.failed_with(Code::invalid_argument)) << field;
  EXPECT_EQ(result.error().facts()->subject, field);
}

TEST(FormatValidate, ChecksEnums) {
  expect_refused(rgba(), "dtype", [](Format& f) { f.dtype = static_cast<DType>(22); });
  expect_refused(rgba(), "pixel_format",
                 [](Format& f) { f.pixel_format = static_cast<PixelFormat>(99); });
  expect_refused(rgba(), "color_matrix",
                 [](Format& f) { f.color_matrix = static_cast<ColorMatrix>(5); });
  expect_refused(rgba(), "color_range",
                 [](Format& f) { f.color_range = static_cast<ColorRange>(3); });
  expect_refused(rgba(), "row_order", [](Format& f) { f.row_order = static_cast<RowOrder>(2); });
}

TEST(FormatValidate, ChecksTheShape) {
  const Format tensor = Format::tensor(DType::int16, std::array<std::uint64_t, 2>{4, 5}).value();
  expect_refused(tensor, "payload_bytes", [](Format& f) { f.payload_bytes = 0; });
  expect_refused(tensor, "rate_denominator", [](Format& f) { f.rate_denominator = 0; });
  expect_refused(tensor, "rank", [](Format& f) { f.rank = 9; });
  expect_refused(tensor, "shape[1]", [](Format& f) { f.shape[1] = 0; });
  expect_refused(tensor, "strides[0]", [](Format& f) { f.strides[0] = -1; });
  expect_refused(tensor, "shape[2]", [](Format& f) { f.shape[2] = 1; });
  expect_refused(tensor, "strides[7]", [](Format& f) { f.strides[7] = 1; });
  expect_refused(tensor, "shape", [](Format& f) { --f.payload_bytes; });
  expect_refused(tensor, "shape", [](Format& f) { f.strides[0] = 6; });
  expect_refused(tensor, "shape", [](Format& f) { f.shape[0] = kHuge; });
  expect_refused(tensor, "shape", [](Format& f) { f.shape = {kHuge, kHuge}; });
  expect_refused(tensor, "shape", [](Format& f) {
    f.shape = {2, 2};
    f.strides = {std::numeric_limits<std::int64_t>::max(),
                 std::numeric_limits<std::int64_t>::max()};
  });
  expect_refused(tensor, "shape", [](Format& f) {
    f.shape = {3, 3};
    f.strides = {std::numeric_limits<std::int64_t>::max(),
                 std::numeric_limits<std::int64_t>::max()};
  });
}

TEST(FormatValidate, AllowsGapsAndRepeats) {
  Format format = Format::tensor(DType::int16, std::array<std::uint64_t, 2>{4, 5}).value();
  format.strides = {0, 2};
  EXPECT_TRUE(validate(format));
  format.payload_bytes = 1000;
  EXPECT_TRUE(validate(format));
}

TEST(FormatValidate, KeepsPicturesOutOfTensors) {
  const Format tensor = Format::bytes(10).value();
  expect_refused(tensor, "width", [](Format& f) { f.width = 1; });
  expect_refused(tensor, "height", [](Format& f) { f.height = 1; });
  expect_refused(tensor, "plane_count", [](Format& f) { f.plane_count = 1; });
  expect_refused(tensor, "planes[0]", [](Format& f) { f.planes[0].row_count = 1; });
}

TEST(FormatValidate, ChecksPlanes) {
  const Format nv12 = Format::image(PixelFormat::nv12, 64, 48).value();
  expect_refused(nv12, "width", [](Format& f) { f.width = 0; });
  expect_refused(nv12, "height", [](Format& f) { f.height = 0; });
  expect_refused(nv12, "plane_count", [](Format& f) { f.plane_count = 1; });
  expect_refused(nv12, "planes[0].row_bytes", [](Format& f) { f.width = 65; });
  expect_refused(nv12, "planes[0].row_bytes", [](Format& f) { f.planes[0].row_bytes = 63; });
  expect_refused(nv12, "planes[1].row_count", [](Format& f) { f.planes[1].row_count = 25; });
  expect_refused(nv12, "planes[1].row_pitch_bytes",
                 [](Format& f) { f.planes[1].row_pitch_bytes = 63; });
  expect_refused(nv12, "planes[1]", [](Format& f) { ++f.planes[1].offset_bytes; });
  expect_refused(nv12, "planes[1]", [](Format& f) { f.planes[1].offset_bytes = kHuge; });
  expect_refused(nv12, "planes[0]", [](Format& f) { f.planes[0].row_pitch_bytes = kHuge; });
  expect_refused(nv12, "planes[2]", [](Format& f) { f.planes[2].offset_bytes = 1; });
  expect_refused(nv12, "shape", [](Format& f) { --f.shape[0]; });
  expect_refused(nv12, "shape", [](Format& f) { f.dtype = DType::int8; });
  expect_refused(nv12, "planes[0].row_bytes", [](Format& f) { f.width = kHuge; });
}

TEST(FormatValidate, ChecksThatTensorAndPictureAgree) {
  const Format padded = rgba(5, 3, 64);
  expect_refused(padded, "dtype", [](Format& f) { f.dtype = DType::int8; });
  expect_refused(padded, "shape", [](Format& f) { f.shape[2] = 3; });
  expect_refused(padded, "strides", [](Format& f) { f.strides[0] = 20; });
  expect_refused(padded, "strides", [](Format& f) { f.strides[1] = 0; });
  expect_refused(padded, "planes[0].offset_bytes", [](Format& f) {
    f.payload_bytes += 8;
    f.planes[0].offset_bytes = 8;
  });
  Format flat = padded;
  flat.rank = 1;
  flat.shape = {flat.payload_bytes};
  flat.strides = {1};
  EXPECT_TRUE(validate(flat));
}

TEST(FormatProperty, FactoriesMakeValidFormats) {
  test::Random random(1);
  for (int i = 0; i < 5000; ++i) {
    const Format format = test::random_format(random);
    const Result<void> result = validate(format);
    ASSERT_TRUE(result) << to_string(format) << ": " << to_string(result.error());
    ASSERT_FALSE(to_string(format).empty());
  }
}

TEST(FormatProperty, AlignmentOnlyAddsPadding) {
  test::Random random(2);
  for (int i = 0; i < 2000; ++i) {
    const Format aligned = test::random_image(random);
    const Format tight = Format::image(aligned.pixel_format, aligned.width, aligned.height).value();
    EXPECT_GE(aligned.payload_bytes, tight.payload_bytes);
    for (std::size_t j = 0; j < kPlaneCountMax; ++j) {
      EXPECT_EQ(aligned.planes[j].row_bytes, tight.planes[j].row_bytes);
      EXPECT_EQ(aligned.planes[j].row_count, tight.planes[j].row_count);
      EXPECT_EQ(tight.planes[j].row_bytes, tight.planes[j].row_pitch_bytes);
    }
  }
}

// One byte less and some element or plane no longer fits.
TEST(FormatProperty, PayloadHasNoByteToSpareWhenTight) {
  test::Random random(3);
  for (int i = 0; i < 2000; ++i) {
    Format format = test::random_format(random);
    const bool padded =
        format.plane_count > 0 && format.planes[format.plane_count - 1].row_pitch_bytes !=
                                      format.planes[format.plane_count - 1].row_bytes;
    if (padded) continue;
    --format.payload_bytes;
    EXPECT_TRUE(validate(format).failed_with(Code::invalid_argument)) << to_string(format);
  }
}

}  // namespace
}  // namespace vramlink
