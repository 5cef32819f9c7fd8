// What the bytes of a frame mean: element type, shape, picture layout.
#ifndef VRAMLINK_FORMAT_HPP
#define VRAMLINK_FORMAT_HPP

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <vramlink/export.hpp>
#include <vramlink/result.hpp>

namespace vramlink::inline v0 {

// clang-format off

/// Element types, with DLPack's meaning. Appended to, never renumbered.
enum class DType : std::uint16_t {
  boolean = 1, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
  float16, float32, float64, bfloat16, complex64, complex128,
  float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu,
  float4_e2m1fn,  ///< two elements a byte
};

/// Picture layouts under GStreamer's names. `none`: a tensor. Appended to, never renumbered.
enum class PixelFormat : std::uint16_t {
  none = 0,
  gray8, gray16_le, rgb, bgr, rgba, bgra, rgbx, bgrx, argb, abgr, rgba64_le,
  rgba_f16, rgba_f32,          ///< vramlink's names RGBA_F16LE, RGBA_F32LE: GStreamer has none
  i420, yv12, y42b, y444, nv12, nv21, nv16, p010_10le, yuy2, uyvy,
};

// clang-format on

/// How Y'CbCr becomes R'G'B'. `unknown` lets the viewer choose by size (docs/architecture.md).
enum class ColorMatrix : std::uint8_t { unknown = 0, rgb, bt601, bt709, bt2020 };
enum class ColorRange : std::uint8_t { unknown = 0, limited, full };
/// Where the first row in memory is shown.
enum class RowOrder : std::uint8_t { top_down = 0, bottom_up };

inline constexpr std::uint32_t kRankMax = 8;
inline constexpr std::uint32_t kPlaneCountMax = 4;

/// One plane of a picture. Sizes in bytes; rows follow one another at row_pitch_bytes.
struct Plane {
  std::uint64_t offset_bytes = 0;     ///< from the start of the payload
  std::uint64_t row_pitch_bytes = 0;  ///< from row to row; at least row_bytes
  std::uint64_t row_bytes = 0;        ///< bytes of a row that carry samples
  std::uint64_t row_count = 0;
  friend bool operator==(const Plane&, const Plane&) = default;
};

/// Element type, shape and, for pictures, planes. A value; valid ones come from the factories, from
/// validate() or from a channel. Strides count elements, as in DLPack.
struct Format {
  DType dtype = DType::uint8;
  PixelFormat pixel_format = PixelFormat::none;
  ColorMatrix color_matrix = ColorMatrix::unknown;
  ColorRange color_range = ColorRange::unknown;
  RowOrder row_order = RowOrder::top_down;
  std::uint32_t rank = 0;
  std::uint32_t plane_count = 0;  ///< 0: a tensor
  std::uint64_t width = 0;        ///< in pixels; 0: a tensor
  std::uint64_t height = 0;
  std::uint32_t rate_numerator = 0;  ///< nominal frames a second; 0/1: not said
  std::uint32_t rate_denominator = 1;
  std::uint64_t payload_bytes = 0;  ///< bytes of one frame
  std::array<std::uint64_t, kRankMax> shape{};
  std::array<std::int64_t, kRankMax> strides{};
  std::array<Plane, kPlaneCountMax> planes{};

  /// A picture with tight planes, each row padded to a multiple of `row_alignment_bytes` (a power
  /// of two). Odd sizes round chroma up. One-plane formats get dtype and shape {height, width,
  /// channels}; planar ones uint8 and the flat shape {payload_bytes}. Codes: invalid_argument.
  [[nodiscard]] VRAMLINK_API static Result<Format> image(PixelFormat pixel_format,
                                                         std::uint64_t width, std::uint64_t height,
                                                         std::uint64_t row_alignment_bytes = 1);
  /// A row-major tensor without gaps; rank 0 is one element. Codes: invalid_argument.
  [[nodiscard]] VRAMLINK_API static Result<Format> tensor(DType dtype,
                                                          std::span<const std::uint64_t> shape);
  [[nodiscard]] static Result<Format> tensor(DType dtype,
                                             std::initializer_list<std::uint64_t> shape) {
    return tensor(dtype, std::span<const std::uint64_t>(shape.begin(), shape.size()));
  }
  /// A flat run of bytes. Codes: invalid_argument (0 bytes).
  [[nodiscard]] VRAMLINK_API static Result<Format> bytes(std::uint64_t size_bytes);

  friend bool operator==(const Format&, const Format&) = default;
};

/// Checks every field against the others with 64-bit overflow checks: enums known, each element and
/// plane row inside payload_bytes, what is beyond rank and plane_count all zero. The shape of a
/// picture is the factory's or flat. Codes: invalid_argument with the field's name.
[[nodiscard]] VRAMLINK_API Result<void> validate(const Format& format);

/// The element type that a C++ type stands for: integers by size and sign, float, double, bool,
/// std::complex of float and double, and std::byte for uint8. Others do not compile.
template <class T>
[[nodiscard]] constexpr DType dtype_of() noexcept {
  constexpr int kLog2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  constexpr DType kSigned[] = {DType::int8, DType::int16, DType::int32, DType::int64};
  constexpr DType kUnsigned[] = {DType::uint8, DType::uint16, DType::uint32, DType::uint64};
  if constexpr (std::is_same_v<T, bool>) {
    return DType::boolean;
  } else if constexpr (std::is_same_v<T, std::byte>) {
    return DType::uint8;
  } else if constexpr (std::is_same_v<T, float>) {
    return DType::float32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::float64;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return DType::complex64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return DType::complex128;
  } else {
    static_assert(std::is_integral_v<T> && sizeof(T) <= 8, "no dtype stands for this type");
    return std::is_signed_v<T> ? kSigned[kLog2] : kUnsigned[kLog2];
  }
}
/// Whether bytes can be seen as elements of that type. Codes: wrong_state (no bytes: the frame was
/// given away), invalid_argument, naming both types, unless they are the same.
[[nodiscard]] VRAMLINK_API Result<void> check_elements(const std::byte* data, DType actual,
                                                       DType wanted);

/// Bits of one element; 0 for other values.
[[nodiscard]] VRAMLINK_API std::uint32_t bits(DType dtype) noexcept;
/// Canonical lower-case name ("float32", "bool"); "unknown" for other values. Static text.
[[nodiscard]] VRAMLINK_API std::string_view name(DType dtype) noexcept;
/// GStreamer's name ("RGBA"); "none" for none, "unknown" for other values. Static text.
[[nodiscard]] VRAMLINK_API std::string_view name(PixelFormat pixel_format) noexcept;
[[nodiscard]] VRAMLINK_API std::string_view name(ColorMatrix matrix) noexcept;
/// Accepts canonical names and the usual aliases ("half", "f4"); codes: invalid_argument.
[[nodiscard]] VRAMLINK_API Result<DType> parse_dtype(std::string_view text);
/// Accepts GStreamer's, ROS's and FFmpeg's names in any case; codes: invalid_argument, with the
/// nearest name as remedy.
[[nodiscard]] VRAMLINK_API Result<PixelFormat> parse_pixel_format(std::string_view text);
/// "RGBA 1920x1080", "float32 [3, 224, 224]".
[[nodiscard]] VRAMLINK_API std::string to_string(const Format& format);

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_FORMAT_HPP
