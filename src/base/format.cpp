// base: making and checking formats. Sizes come from peers too: every sum and product is checked.
#include <bit>
#include <limits>
#include <string>

#include <vramlink/format.hpp>

#include "base/checked.hpp"
#include "base/format_table.hpp"
#include "base/try.hpp"

namespace vramlink::inline v0 {
namespace {

using base::checked_add;
using base::checked_multiply;
using base::checked_round_up;
using base::PixelRow;
using base::PlaneRule;

Error refused(const char* operation, std::string_view field, std::string reason) {
  return Error(Code::invalid_argument, operation).about(field).because(std::move(reason));
}

Error bad(std::string_view field, std::string reason) {
  return refused("validate format", field, std::move(reason));
}

std::string at(std::string_view array, std::size_t index, std::string_view member = {}) {
  std::string field(array);
  return field.append("[").append(std::to_string(index)).append("]").append(member);
}

constexpr std::uint64_t shifted_up(std::uint64_t value, unsigned shift) noexcept {
  return (value >> shift) + ((value & ((std::uint64_t{1} << shift) - 1)) != 0 ? 1 : 0);
}

std::optional<std::uint64_t> row_bytes(const PlaneRule& rule, std::uint64_t width) noexcept {
  return checked_multiply(shifted_up(width, rule.width_shift), rule.group_bytes);
}

// Eight elements take `bits` bytes; this way 2^63 bytes do not overflow as bits.
std::optional<std::uint64_t> bytes_of_elements(std::uint64_t count, DType dtype) noexcept {
  const auto whole = checked_multiply(count >> 3, bits(dtype));
  if (!whole) return std::nullopt;
  return checked_add(*whole, shifted_up((count & 7) * bits(dtype), 3));
}

// One past the greatest element index that shape and strides reach.
std::optional<std::uint64_t> element_extent(const Format& format) noexcept {
  std::uint64_t extent = 1;
  for (std::size_t i = 0; i < format.rank; ++i) {
    const auto reach =
        checked_multiply(format.shape[i] - 1, static_cast<std::uint64_t>(format.strides[i]));
    if (!reach) return std::nullopt;
    const auto sum = checked_add(extent, *reach);
    if (!sum) return std::nullopt;
    extent = *sum;
  }
  return extent;
}

Result<void> validate_enums(const Format& format) {
  if (!base::find(format.dtype)) return bad("dtype", "no such element type");
  if (format.pixel_format != PixelFormat::none && !base::find(format.pixel_format)) {
    return bad("pixel_format", "no such pixel format");
  }
  if (format.color_matrix > ColorMatrix::bt2020) return bad("color_matrix", "no such value");
  if (format.color_range > ColorRange::full) return bad("color_range", "no such value");
  if (format.row_order > RowOrder::bottom_up) return bad("row_order", "no such value");
  return {};
}

// Every format has a shape: also a picture can be taken as a tensor.
Result<void> validate_shape(const Format& format) {
  if (format.payload_bytes == 0) return bad("payload_bytes", "is 0");
  if (format.rate_denominator == 0) return bad("rate_denominator", "is 0");
  if (format.rank > kRankMax) return bad("rank", "more than " + std::to_string(kRankMax));
  for (std::size_t i = 0; i < kRankMax; ++i) {
    const bool used = i < format.rank;
    if (used && format.shape[i] == 0) return bad(at("shape", i), "is 0");
    if (used && format.strides[i] < 0) return bad(at("strides", i), "is negative");
    if (!used && format.shape[i] != 0) return bad(at("shape", i), "set beyond the rank");
    if (!used && format.strides[i] != 0) return bad(at("strides", i), "set beyond the rank");
  }
  const auto extent = element_extent(format);
  const auto size = extent ? bytes_of_elements(*extent, format.dtype) : std::nullopt;
  if (!size) return bad("shape", "its size does not fit 64 bits");
  if (*size > format.payload_bytes) {
    return bad("shape", "reaches " + std::to_string(*size) + " bytes, past payload_bytes " +
                            std::to_string(format.payload_bytes));
  }
  return {};
}

Result<void> validate_no_picture(const Format& format) {
  if (format.width != 0) return bad("width", "set on a tensor");
  if (format.height != 0) return bad("height", "set on a tensor");
  if (format.plane_count != 0) return bad("plane_count", "set on a tensor");
  return {};
}

Result<void> validate_plane(const Format& format, const PlaneRule& rule, std::size_t i) {
  const Plane& plane = format.planes[i];
  if (plane.row_bytes != row_bytes(rule, format.width)) {
    return bad(at("planes", i, ".row_bytes"), "does not follow from the width");
  }
  if (plane.row_count != shifted_up(format.height, rule.height_shift)) {
    return bad(at("planes", i, ".row_count"), "does not follow from the height");
  }
  if (plane.row_pitch_bytes < plane.row_bytes) {
    return bad(at("planes", i, ".row_pitch_bytes"), "less than row_bytes");
  }
  const auto before_last = checked_multiply(plane.row_count - 1, plane.row_pitch_bytes);
  const auto extent = before_last ? checked_add(*before_last, plane.row_bytes) : std::nullopt;
  const auto end = extent ? checked_add(*extent, plane.offset_bytes) : std::nullopt;
  if (!end || *end > format.payload_bytes) {
    return bad(at("planes", i), "reaches past payload_bytes");
  }
  return {};
}

// The tensor view of a one-plane picture is {height, width, channels} over the same bytes; that of
// any picture may be the flat run of its bytes.
Result<void> validate_picture_shape(const Format& format, const PixelRow& row) {
  if (format.dtype == DType::uint8 && format.rank == 1 && format.strides[0] == 1 &&
      format.shape[0] == format.payload_bytes) {
    return {};
  }
  if (row.channel_count == 0) return bad("shape", "not the flat run of payload_bytes");
  if (format.dtype != row.dtype) return bad("dtype", "not that of the pixel format");
  if (format.rank != 3 || format.shape[0] != format.height || format.shape[1] != format.width ||
      format.shape[2] != row.channel_count) {
    return bad("shape", "neither {height, width, channels} nor flat");
  }
  const auto pitch =
      checked_multiply(static_cast<std::uint64_t>(format.strides[0]), bits(format.dtype) / 8);
  if (pitch != format.planes[0].row_pitch_bytes || format.strides[1] != row.channel_count ||
      format.strides[2] != 1) {
    return bad("strides", "do not follow from the plane");
  }
  if (format.planes[0].offset_bytes != 0) return bad("planes[0].offset_bytes", "not 0");
  return {};
}

Result<void> validate_picture(const Format& format, const PixelRow& row) {
  if (format.width == 0) return bad("width", "is 0");
  if (format.height == 0) return bad("height", "is 0");
  if (format.plane_count != row.plane_count) {
    return bad("plane_count", std::string(row.name) + " has " + std::to_string(row.plane_count));
  }
  for (std::size_t i = 0; i < format.plane_count; ++i) {
    VRAMLINK_CHECK(validate_plane(format, row.planes[i], i));
  }
  return validate_picture_shape(format, row);
}

// Lays the planes of `format` one after another and sets payload_bytes; false if they do not fit.
bool lay_planes(Format& format, const PixelRow& row, std::uint64_t row_alignment) noexcept {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < row.plane_count; ++i) {
    const auto used = row_bytes(row.planes[i], format.width);
    const auto pitch = used ? checked_round_up(*used, row_alignment) : std::nullopt;
    const std::uint64_t rows = shifted_up(format.height, row.planes[i].height_shift);
    const auto size = pitch ? checked_multiply(*pitch, rows) : std::nullopt;
    const auto next = size ? checked_add(end, *size) : std::nullopt;
    if (!next) return false;
    format.planes[i] = Plane{end, *pitch, *used, rows};
    end = *next;
  }
  format.payload_bytes = end;
  return end <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
}

void set_flat_shape(Format& format) noexcept {
  format.dtype = DType::uint8;
  format.rank = 1;
  format.shape[0] = format.payload_bytes;
  format.strides[0] = 1;
}

}  // namespace

Result<Format> Format::image(PixelFormat pixel_format, std::uint64_t width, std::uint64_t height,
                             std::uint64_t row_alignment_bytes) {
  constexpr const char* kOperation = "describe image";
  const PixelRow* row = base::find(pixel_format);
  if (!row) return refused(kOperation, "pixel_format", "no such pixel format");
  if (width == 0) return refused(kOperation, "width", "is 0");
  if (height == 0) return refused(kOperation, "height", "is 0");
  if (!std::has_single_bit(row_alignment_bytes)) {
    return refused(kOperation, "row_alignment_bytes", "not a power of two");
  }
  Format format;
  format.pixel_format = pixel_format;
  format.width = width;
  format.height = height;
  format.plane_count = row->plane_count;
  if (!lay_planes(format, *row, row_alignment_bytes)) {
    return refused(kOperation, "width, height", "the picture does not fit 63 bits");
  }
  if (row->channel_count == 0) {
    set_flat_shape(format);
    return format;
  }
  format.dtype = row->dtype;
  format.rank = 3;
  format.shape = {height, width, row->channel_count};
  const std::uint64_t pitch = format.planes[0].row_pitch_bytes / (bits(row->dtype) / 8);
  format.strides = {static_cast<std::int64_t>(pitch), row->channel_count, 1};
  return format;
}

Result<Format> Format::tensor(DType dtype, std::span<const std::uint64_t> shape) {
  constexpr const char* kOperation = "describe tensor";
  if (!base::find(dtype)) return refused(kOperation, "dtype", "no such element type");
  if (shape.size() > kRankMax) {
    return refused(kOperation, "shape", "more than " + std::to_string(kRankMax) + " dimensions");
  }
  Format format;
  format.dtype = dtype;
  format.rank = static_cast<std::uint32_t>(shape.size());
  std::uint64_t count = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return refused(kOperation, at("shape", i), "is 0");
    const auto product = checked_multiply(count, shape[i]);
    if (!product || *product > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      return refused(kOperation, "shape", "the number of elements does not fit 63 bits");
    }
    format.shape[i] = shape[i];
    format.strides[i] = static_cast<std::int64_t>(count);
    count = *product;
  }
  const auto size = bytes_of_elements(count, dtype);
  if (!size) return refused(kOperation, "shape", "the size does not fit 64 bits");
  format.payload_bytes = *size;
  return format;
}

Result<Format> Format::bytes(std::uint64_t size_bytes) {
  if (size_bytes == 0) return refused("describe bytes", "size_bytes", "is 0");
  Format format;
  format.payload_bytes = size_bytes;
  set_flat_shape(format);
  return format;
}

Result<void> validate(const Format& format) {
  VRAMLINK_CHECK(validate_enums(format));
  VRAMLINK_CHECK(validate_shape(format));
  const PixelRow* row = base::find(format.pixel_format);
  if (row) {
    VRAMLINK_CHECK(validate_picture(format, *row));
  } else {
    VRAMLINK_CHECK(validate_no_picture(format));
  }
  for (std::size_t i = format.plane_count; i < kPlaneCountMax; ++i) {
    if (format.planes[i] != Plane{}) return bad(at("planes", i), "set beyond plane_count");
  }
  return {};
}

Result<void> check_elements(const std::byte* data, DType actual, DType wanted) {
  if (data == nullptr) {
    return Error(Code::wrong_state, "view elements")
        .because("the frame was released, published or moved");
  }
  if (actual == wanted) return {};
  return Error(Code::invalid_argument, "view elements")
      .about(name(wanted))
      .because("the frame has elements of type " + std::string(name(actual)));
}

}  // namespace vramlink::inline v0
