// media: conversion of every pixel format to RGB.
#include "media/picture.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

namespace vramlink::cli::media {
namespace {

constexpr std::uint64_t kSideMax = 65535;
constexpr std::uint64_t kSmallHeight = 720;

const std::uint8_t* row_of(const Format& format, const std::uint8_t* bytes, std::size_t plane,
                           std::uint64_t row) {
  const Plane& p = format.planes[plane];
  return bytes + p.offset_bytes + row * p.row_pitch_bytes;
}

std::uint8_t to_byte(float unit) noexcept {
  if (!(unit > 0)) return 0;  // also not-a-number
  return static_cast<std::uint8_t>(std::min(unit, 1.0F) * 255.0F + 0.5F);
}

std::uint16_t load16(const std::uint8_t* at) noexcept {
  return static_cast<std::uint16_t>(at[0] | at[1] << 8);
}

float load_half(const std::uint8_t* at) noexcept {
  const std::uint16_t half = load16(at);
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                              : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  if (exponent == 31) value = mantissa == 0 ? INFINITY : NAN;
  return (half & 0x8000) != 0 ? -value : value;
}

float load_float(const std::uint8_t* at) noexcept {
  const std::uint32_t word = load16(at) | std::uint32_t{load16(at + 2)} << 16;
  return std::bit_cast<float>(word);
}

// Bytes of a pixel and where its red, green, blue and alpha are; alpha -1: none.
struct Packed {
  int bytes;
  int red, green, blue, alpha;
};

std::optional<Packed> packed_layout(PixelFormat pixel_format) noexcept {
  switch (pixel_format) {
    case PixelFormat::rgb:
      return Packed{3, 0, 1, 2, -1};
    case PixelFormat::bgr:
      return Packed{3, 2, 1, 0, -1};
    case PixelFormat::rgba:
      return Packed{4, 0, 1, 2, 3};
    case PixelFormat::bgra:
      return Packed{4, 2, 1, 0, 3};
    case PixelFormat::rgbx:
      return Packed{4, 0, 1, 2, -1};
    case PixelFormat::bgrx:
      return Packed{4, 2, 1, 0, -1};
    case PixelFormat::argb:
      return Packed{4, 1, 2, 3, 0};
    case PixelFormat::abgr:
      return Packed{4, 3, 2, 1, 0};
    default:
      return std::nullopt;
  }
}

void packed_row(const Packed& layout, const std::uint8_t* row, Picture& picture,
                std::uint8_t* out) {
  for (std::uint32_t x = 0; x < picture.width; ++x, row += layout.bytes, out += picture.channels) {
    out[0] = row[layout.red];
    out[1] = row[layout.green];
    out[2] = row[layout.blue];
    if (layout.alpha >= 0) out[3] = row[layout.alpha];
  }
}

// Four samples of two or four bytes.
void wide_row(PixelFormat pixel_format, const std::uint8_t* row, std::uint32_t width,
              std::uint8_t* out) {
  const std::uint32_t count = width * 4;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (pixel_format == PixelFormat::rgba64_le) {
      out[i] = static_cast<std::uint8_t>((load16(row + 2 * i) * 255U + 32767U) / 65535U);
    } else if (pixel_format == PixelFormat::rgba_f16) {
      out[i] = to_byte(load_half(row + 2 * i));
    } else {
      out[i] = to_byte(load_float(row + 4 * i));
    }
  }
}

void gray_row(const Format& format, const std::uint8_t* row, std::uint8_t* out) {
  const bool wide = format.pixel_format == PixelFormat::gray16_le;
  const bool limited = format.color_range == ColorRange::limited;
  for (std::uint64_t x = 0; x < format.width; ++x, out += 3) {
    float value = wide ? static_cast<float>(load16(row + 2 * x)) / 65535.0F
                       : static_cast<float>(row[x]) / 255.0F;
    if (limited) value = (value * 255.0F - 16.0F) / 219.0F;
    out[0] = out[1] = out[2] = to_byte(value);
  }
}

// Where the samples of one row of Y'CbCr are.
struct YuvRow {
  const std::uint8_t* luma;
  const std::uint8_t* blue;
  const std::uint8_t* red;
  std::size_t luma_step;
  std::size_t chroma_step;
  unsigned width_shift;
  bool wide;  ///< 10 bits at the top of 16
};

YuvRow planar_row(const Format& format, const std::uint8_t* bytes, std::uint64_t y, unsigned hshift,
                  unsigned vshift) {
  const bool swapped = format.pixel_format == PixelFormat::yv12;
  return {row_of(format, bytes, 0, y),
          row_of(format, bytes, swapped ? 2 : 1, y >> vshift),
          row_of(format, bytes, swapped ? 1 : 2, y >> vshift),
          1,
          1,
          hshift,
          false};
}

YuvRow interleaved_row(const Format& format, const std::uint8_t* bytes, std::uint64_t y,
                       unsigned vshift) {
  const std::uint8_t* chroma = row_of(format, bytes, 1, y >> vshift);
  const std::size_t size = format.pixel_format == PixelFormat::p010_10le ? 2 : 1;
  const bool swapped = format.pixel_format == PixelFormat::nv21;
  return {row_of(format, bytes, 0, y),
          chroma + (swapped ? size : 0),
          chroma + (swapped ? 0 : size),
          size,
          2 * size,
          1,
          size == 2};
}

std::optional<YuvRow> yuv_row(const Format& format, const std::uint8_t* bytes, std::uint64_t y) {
  const std::uint8_t* row = row_of(format, bytes, 0, y);
  switch (format.pixel_format) {
    case PixelFormat::i420:
    case PixelFormat::yv12:
      return planar_row(format, bytes, y, 1, 1);
    case PixelFormat::y42b:
      return planar_row(format, bytes, y, 1, 0);
    case PixelFormat::y444:
      return planar_row(format, bytes, y, 0, 0);
    case PixelFormat::nv12:
    case PixelFormat::nv21:
    case PixelFormat::p010_10le:
      return interleaved_row(format, bytes, y, 1);
    case PixelFormat::nv16:
      return interleaved_row(format, bytes, y, 0);
    case PixelFormat::yuy2:
      return YuvRow{row, row + 1, row + 3, 2, 4, 1, false};
    case PixelFormat::uyvy:
      return YuvRow{row + 1, row, row + 2, 2, 4, 1, false};
    default:
      return std::nullopt;
  }
}

class YuvToRgb {
 public:
  explicit YuvToRgb(const Format& format) {
    const LumaWeights weights = luma_weights(format);
    const double green = 1 - weights.red - weights.blue;
    red_from_red_ = static_cast<float>(2 * (1 - weights.red));
    blue_from_blue_ = static_cast<float>(2 * (1 - weights.blue));
    green_from_red_ = static_cast<float>(2 * (1 - weights.red) * weights.red / green);
    green_from_blue_ = static_cast<float>(2 * (1 - weights.blue) * weights.blue / green);
    if (format.color_range == ColorRange::full) {
      luma_zero_ = 0;
      luma_range_ = 255;
      chroma_range_ = 255;
    }
  }

  void convert(const YuvRow& row, std::uint32_t width, std::uint8_t* out) const {
    for (std::uint32_t x = 0; x < width; ++x, out += 3) {
      const std::size_t chroma = (x >> row.width_shift) * row.chroma_step;
      const float luma = (sample(row, row.luma + x * row.luma_step) - luma_zero_) / luma_range_;
      const float blue = (sample(row, row.blue + chroma) - 128) / chroma_range_;
      const float red = (sample(row, row.red + chroma) - 128) / chroma_range_;
      out[0] = to_byte(luma + red_from_red_ * red);
      out[1] = to_byte(luma - green_from_red_ * red - green_from_blue_ * blue);
      out[2] = to_byte(luma + blue_from_blue_ * blue);
    }
  }

 private:
  // In the scale of 8 bits.
  static float sample(const YuvRow& row, const std::uint8_t* at) noexcept {
    return row.wide ? static_cast<float>(load16(at) >> 6) / 4.0F : static_cast<float>(*at);
  }

  float red_from_red_;
  float green_from_red_;
  float green_from_blue_;
  float blue_from_blue_;
  float luma_zero_ = 16;
  float luma_range_ = 219;
  float chroma_range_ = 224;
};

bool is_wide(PixelFormat pixel_format) noexcept {
  return pixel_format == PixelFormat::rgba64_le || pixel_format == PixelFormat::rgba_f16 ||
         pixel_format == PixelFormat::rgba_f32;
}

}  // namespace

LumaWeights luma_weights(const Format& format) noexcept {
  switch (format.color_matrix) {
    case ColorMatrix::bt601:
      return {0.299, 0.114};
    case ColorMatrix::bt709:
      return {0.2126, 0.0722};
    case ColorMatrix::bt2020:
      return {0.2627, 0.0593};
    default:
      break;
  }
  if (format.height < kSmallHeight) return {0.299, 0.114};
  return {0.2126, 0.0722};
}

Result<Picture> to_picture(const Format& format, std::span<const std::byte> bytes) {
  if (format.plane_count == 0) {
    return Error(Code::invalid_argument, "make picture")
        .because("frames of " + to_string(format) + " are no pictures")
        .remedy("-o FILE.npy");
  }
  if (format.width > kSideMax || format.height > kSideMax) {
    return Error(Code::unsupported, "make picture")
        .because("a side of " + to_string(format) + " is longer than " + std::to_string(kSideMax));
  }
  if (bytes.size() < format.payload_bytes) {
    return Error(Code::corrupt, "make picture").because("the frame is shorter than its format");
  }
  const auto packed = packed_layout(format.pixel_format);
  const bool alpha = (packed && packed->alpha >= 0) || is_wide(format.pixel_format);
  Picture picture{static_cast<std::uint32_t>(format.width),
                  static_cast<std::uint32_t>(format.height),
                  alpha ? 4U : 3U,
                  {}};
  const std::size_t pitch = std::size_t{picture.width} * picture.channels;
  picture.pixels.resize(pitch * picture.height);

  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const YuvToRgb converter(format);
  for (std::uint32_t y = 0; y < picture.height; ++y) {
    const bool flipped = format.row_order == RowOrder::bottom_up;
    std::uint8_t* out = picture.pixels.data() + pitch * (flipped ? picture.height - 1 - y : y);
    const std::uint8_t* row = row_of(format, data, 0, y);
    if (packed) {
      packed_row(*packed, row, picture, out);
    } else if (is_wide(format.pixel_format)) {
      wide_row(format.pixel_format, row, picture.width, out);
    } else if (const auto yuv = yuv_row(format, data, y)) {
      converter.convert(*yuv, picture.width, out);
    } else {
      gray_row(format, row, out);
    }
  }
  return picture;
}

}  // namespace vramlink::cli::media
