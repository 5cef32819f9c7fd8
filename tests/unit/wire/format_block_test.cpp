#include "wire/format_block.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "support/random_format.hpp"

namespace vramlink::wire {
namespace {

using Block = std::array<std::byte, kFormatBlockBytes>;

Block encoded(const Format& format) {
  Block block;
  block.fill(std::byte{0xee});
  encode_format(format, block);
  return block;
}

template <class T>
T read(const Block& block, std::size_t offset) {
  T value;
  std::memcpy(&value, &block[offset], sizeof(value));
  return value;
}

template <class T>
void write(Block& block, std::size_t offset, T value) {
  std::memcpy(&block[offset], &value, sizeof(value));
}

void expect_corrupt(const Block& block, std::string_view field) {
  const auto result = decode_format(block);
  ASSERT_TRUE(result.failed_with(Code::corrupt)) << field;
  EXPECT_EQ(result.error().facts()->subject, field);
}

TEST(FormatBlock, HasTheDocumentedOffsets) {
  Format format = Format::image(PixelFormat::nv12, 640, 480, 1024).value();
  format.color_matrix = ColorMatrix::bt709;
  format.color_range = ColorRange::limited;
  format.row_order = RowOrder::bottom_up;
  format.rate_numerator = 30000;
  format.rate_denominator = 1001;
  const Block block = encoded(format);
  EXPECT_EQ(read<std::uint16_t>(block, 0), 6);
  EXPECT_EQ(read<std::uint16_t>(block, 2), 18);
  EXPECT_EQ(read<std::uint8_t>(block, 4), 3);
  EXPECT_EQ(read<std::uint8_t>(block, 5), 1);
  EXPECT_EQ(read<std::uint8_t>(block, 6), 1);
  EXPECT_EQ(read<std::uint32_t>(block, 8), 1U);
  EXPECT_EQ(read<std::uint32_t>(block, 12), 2U);
  EXPECT_EQ(read<std::uint64_t>(block, 16), 640U);
  EXPECT_EQ(read<std::uint64_t>(block, 24), 480U);
  EXPECT_EQ(read<std::uint32_t>(block, 32), 30000U);
  EXPECT_EQ(read<std::uint32_t>(block, 36), 1001U);
  EXPECT_EQ(read<std::uint64_t>(block, 40), format.payload_bytes);
  EXPECT_EQ(read<std::uint64_t>(block, 64), format.payload_bytes);
  EXPECT_EQ(read<std::int64_t>(block, 128), 1);
  EXPECT_EQ(read<std::uint64_t>(block, 192 + 8), 1024U);
  EXPECT_EQ(read<std::uint64_t>(block, 224 + 0), 1024U * 480);
  EXPECT_EQ(read<std::uint64_t>(block, 224 + 24), 240U);
}

TEST(FormatBlock, RandomFormatsRoundTrip) {
  test::Random random(4);
  for (int i = 0; i < 5000; ++i) {
    const Format format = test::random_format(random);
    const auto decoded = decode_format(encoded(format));
    ASSERT_TRUE(decoded) << to_string(decoded.error());
    EXPECT_EQ(*decoded, format);
  }
}

TEST(FormatBlock, BlamesThePeerWithTheField) {
  const Block good = encoded(Format::image(PixelFormat::rgba, 64, 48).value());
  const auto changed = [&good](std::size_t offset, auto value) {
    Block block = good;
    write(block, offset, value);
    return block;
  };
  expect_corrupt(Block{}, "dtype");
  expect_corrupt(changed(0, std::uint16_t{0xffff}), "dtype");
  expect_corrupt(changed(2, std::uint16_t{0xffff}), "pixel_format");
  expect_corrupt(changed(4, std::uint8_t{0xff}), "color_matrix");
  expect_corrupt(changed(7, std::uint8_t{1}), "reserved");
  expect_corrupt(changed(8, ~std::uint32_t{0}), "rank");
  expect_corrupt(changed(12, ~std::uint32_t{0}), "plane_count");
  expect_corrupt(changed(40, std::uint64_t{64 * 48 * 4 - 1}), "shape");
  expect_corrupt(changed(48, std::uint8_t{1}), "reserved");
  expect_corrupt(changed(63, std::uint8_t{1}), "reserved");
  expect_corrupt(changed(192 + 24, ~std::uint64_t{0}), "planes[0].row_count");
  expect_corrupt(changed(224, std::uint64_t{1}), "planes[1]");
  expect_corrupt(changed(320, std::uint8_t{1}), "reserved");
  expect_corrupt(changed(767, std::uint8_t{1}), "reserved");
  expect_corrupt(encoded(Format::bytes(kPayloadBytesMax + 1).value()), "payload_bytes");
  EXPECT_TRUE(decode_format(encoded(Format::bytes(kPayloadBytesMax).value())));
}

TEST(FormatBlock, RandomBytesAreRefusedOrValid) {
  test::Random random(5);
  for (int i = 0; i < 20000; ++i) {
    Block block = encoded(test::random_format(random));
    for (std::uint64_t edits = test::pick(random, 1, 3); edits > 0; --edits) {
      block[test::pick(random, 0, 319)] = static_cast<std::byte>(random());
    }
    const auto decoded = decode_format(block);
    if (!decoded) {
      EXPECT_EQ(decoded.error().code(), Code::corrupt);
      EXPECT_FALSE(decoded.error().facts()->subject.empty());
      continue;
    }
    EXPECT_TRUE(validate(*decoded));
    EXPECT_EQ(encoded(*decoded), block);
  }
}

}  // namespace
}  // namespace vramlink::wire
