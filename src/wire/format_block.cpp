// wire: the layout of a format, by offset (docs/wire_format.md).
#include "wire/format_block.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace vramlink::wire {
namespace {

struct PlaneBlock {
  std::uint64_t offset_bytes;
  std::uint64_t row_pitch_bytes;
  std::uint64_t row_bytes;
  std::uint64_t row_count;
};

struct FormatBlock {
  std::uint16_t dtype;         //   0
  std::uint16_t pixel_format;  //   2
  std::uint8_t color_matrix;   //   4
  std::uint8_t color_range;    //   5
  std::uint8_t row_order;      //   6
  std::uint8_t reserved_7;
  std::uint32_t rank;              //   8
  std::uint32_t plane_count;       //  12
  std::uint64_t width;             //  16
  std::uint64_t height;            //  24
  std::uint32_t rate_numerator;    //  32
  std::uint32_t rate_denominator;  //  36
  std::uint64_t payload_bytes;     //  40
  std::array<std::uint8_t, 16> reserved_48;
  std::array<std::uint64_t, kRankMax> shape;      //  64
  std::array<std::int64_t, kRankMax> strides;     // 128
  std::array<PlaneBlock, kPlaneCountMax> planes;  // 192
  std::array<std::uint8_t, 448> reserved_320;
};

static_assert(sizeof(FormatBlock) == kFormatBlockBytes);
static_assert(offsetof(FormatBlock, payload_bytes) == 40);
static_assert(offsetof(FormatBlock, shape) == 64);
static_assert(offsetof(FormatBlock, strides) == 128);
static_assert(offsetof(FormatBlock, planes) == 192);
static_assert(offsetof(FormatBlock, reserved_320) == 320);
static_assert(std::has_unique_object_representations_v<FormatBlock>);

Error corrupt_format(std::string_view field, std::string reason) {
  return Error(Code::corrupt, "read format").about(field).because(std::move(reason));
}

template <class Bytes>
bool all_zero(const Bytes& bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

void encode_format(const Format& format, std::span<std::byte, kFormatBlockBytes> block) noexcept {
  FormatBlock bytes{};
  bytes.dtype = static_cast<std::uint16_t>(format.dtype);
  bytes.pixel_format = static_cast<std::uint16_t>(format.pixel_format);
  bytes.color_matrix = static_cast<std::uint8_t>(format.color_matrix);
  bytes.color_range = static_cast<std::uint8_t>(format.color_range);
  bytes.row_order = static_cast<std::uint8_t>(format.row_order);
  bytes.rank = format.rank;
  bytes.plane_count = format.plane_count;
  bytes.width = format.width;
  bytes.height = format.height;
  bytes.rate_numerator = format.rate_numerator;
  bytes.rate_denominator = format.rate_denominator;
  bytes.payload_bytes = format.payload_bytes;
  bytes.shape = format.shape;
  bytes.strides = format.strides;
  for (std::size_t i = 0; i < format.planes.size(); ++i) {
    const Plane& plane = format.planes[i];
    bytes.planes[i] = {plane.offset_bytes, plane.row_pitch_bytes, plane.row_bytes, plane.row_count};
  }
  std::memcpy(block.data(), &bytes, sizeof(bytes));
}

Result<Format> decode_format(std::span<const std::byte, kFormatBlockBytes> block) {
  FormatBlock bytes{};
  std::memcpy(&bytes, block.data(), sizeof(bytes));
  if (bytes.reserved_7 != 0 || !all_zero(bytes.reserved_48) || !all_zero(bytes.reserved_320)) {
    return corrupt_format("reserved", "is not 0");
  }
  Format format;
  format.dtype = static_cast<DType>(bytes.dtype);
  format.pixel_format = static_cast<PixelFormat>(bytes.pixel_format);
  format.color_matrix = static_cast<ColorMatrix>(bytes.color_matrix);
  format.color_range = static_cast<ColorRange>(bytes.color_range);
  format.row_order = static_cast<RowOrder>(bytes.row_order);
  format.rank = bytes.rank;
  format.plane_count = bytes.plane_count;
  format.width = bytes.width;
  format.height = bytes.height;
  format.rate_numerator = bytes.rate_numerator;
  format.rate_denominator = bytes.rate_denominator;
  format.payload_bytes = bytes.payload_bytes;
  format.shape = bytes.shape;
  format.strides = bytes.strides;
  for (std::size_t i = 0; i < format.planes.size(); ++i) {
    const PlaneBlock& plane = bytes.planes[i];
    format.planes[i] = {plane.offset_bytes, plane.row_pitch_bytes, plane.row_bytes,
                        plane.row_count};
  }
  if (const auto valid = validate(format); !valid) {
    // The same finding, but here the peer is to blame, not the caller.
    return corrupt_format(valid.error().facts()->subject, valid.error().facts()->reason);
  }
  if (format.payload_bytes > kPayloadBytesMax)
    return corrupt_format("payload_bytes", "over the limit");
  return format;
}

}  // namespace vramlink::wire
