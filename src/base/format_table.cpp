// base: the tables of element types and picture layouts.
#include "base/format_table.hpp"

#include <algorithm>

namespace vramlink::base {
namespace {

// Aliases that mean different things in different places ("f16", "byte") are left out; "float",
// "int" and "long" have torch's meaning.
constexpr auto kDTypes = std::to_array<DTypeRow>({
    {DType::boolean, 8, "bool", {"boolean", "bool_", "?", "b1"}},
    {DType::int8, 8, "int8", {"i1", "int8_t", "char"}},
    {DType::int16, 16, "int16", {"i2", "int16_t", "short"}},
    {DType::int32, 32, "int32", {"i4", "int32_t", "int"}},
    {DType::int64, 64, "int64", {"i8", "int64_t", "long"}},
    {DType::uint8, 8, "uint8", {"u1", "uint8_t"}},
    {DType::uint16, 16, "uint16", {"u2", "uint16_t"}},
    {DType::uint32, 32, "uint32", {"u4", "uint32_t"}},
    {DType::uint64, 64, "uint64", {"u8", "uint64_t"}},
    {DType::float16, 16, "float16", {"half", "fp16", "f2"}},
    {DType::float32, 32, "float32", {"float", "single", "fp32", "f4", "f32"}},
    {DType::float64, 64, "float64", {"double", "fp64", "f8", "f64"}},
    {DType::bfloat16, 16, "bfloat16", {"bf16"}},
    {DType::complex64, 64, "complex64", {"c8", "cfloat", "csingle"}},
    {DType::complex128, 128, "complex128", {"c16", "cdouble"}},
    {DType::float8_e4m3fn, 8, "float8_e4m3fn", {"fp8_e4m3", "fp8_e4m3fn", "e4m3fn"}},
    {DType::float8_e5m2, 8, "float8_e5m2", {"fp8_e5m2", "e5m2"}},
    {DType::float8_e4m3fnuz, 8, "float8_e4m3fnuz", {"fp8_e4m3fnuz", "e4m3fnuz"}},
    {DType::float8_e5m2fnuz, 8, "float8_e5m2fnuz", {"fp8_e5m2fnuz", "e5m2fnuz"}},
    {DType::float8_e8m0fnu, 8, "float8_e8m0fnu", {"fp8_e8m0fnu", "e8m0fnu"}},
    {DType::float4_e2m1fn, 4, "float4_e2m1fn", {"float4_e2m1fn_x2", "fp4_e2m1", "e2m1fn"}},
});

constexpr DType kU8 = DType::uint8;
constexpr DType kU16 = DType::uint16;
constexpr PlaneRule kLuma = {1, 0, 0};

// clang-format off
constexpr auto kPixels = std::to_array<PixelRow>({
    {PixelFormat::gray8,     "GRAY8",     {"gray", "mono8", "8uc1", "mono8fixed"},         kU8,  1, 1, {{{1, 0, 0}}}},
    {PixelFormat::gray16_le, "GRAY16_LE", {"gray16le", "gray16", "mono16", "16uc1", "mono16fixed"}, kU16, 1, 1, {{{2, 0, 0}}}},
    {PixelFormat::rgb,       "RGB",       {"rgb24", "rgb8"},                               kU8,  3, 1, {{{3, 0, 0}}}},
    {PixelFormat::bgr,       "BGR",       {"bgr24", "bgr8"},                               kU8,  3, 1, {{{3, 0, 0}}}},
    {PixelFormat::rgba,      "RGBA",      {"rgba8", "rgba8fixed"},                         kU8,  4, 1, {{{4, 0, 0}}}},
    {PixelFormat::bgra,      "BGRA",      {"bgra8", "bgra8fixed"},                         kU8,  4, 1, {{{4, 0, 0}}}},
    {PixelFormat::rgbx,      "RGBx",      {"rgb0"},                                        kU8,  4, 1, {{{4, 0, 0}}}},
    {PixelFormat::bgrx,      "BGRx",      {"bgr0"},                                        kU8,  4, 1, {{{4, 0, 0}}}},
    {PixelFormat::argb,      "ARGB",      {"argb8"},                                       kU8,  4, 1, {{{4, 0, 0}}}},
    {PixelFormat::abgr,      "ABGR",      {"abgr8"},                                       kU8,  4, 1, {{{4, 0, 0}}}},
    {PixelFormat::rgba64_le, "RGBA64_LE", {"rgba64le", "rgba64", "rgba16", "rgba16fixed"}, kU16, 4, 1, {{{8, 0, 0}}}},
    {PixelFormat::rgba_f16,  "RGBA_F16LE", {"rgbaf16le", "rgbaf16", "rgba16float"}, DType::float16, 4, 1, {{{8, 0, 0}}}},
    {PixelFormat::rgba_f32,  "RGBA_F32LE", {"rgbaf32le", "rgbaf32", "rgba32float"}, DType::float32, 4, 1, {{{16, 0, 0}}}},
    {PixelFormat::i420,      "I420",      {"yuv420p", "iyuv"},                             kU8,  0, 3, {{kLuma, {1, 1, 1}, {1, 1, 1}}}},
    {PixelFormat::yv12,      "YV12",      {},                                              kU8,  0, 3, {{kLuma, {1, 1, 1}, {1, 1, 1}}}},
    {PixelFormat::y42b,      "Y42B",      {"yuv422p"},                                     kU8,  0, 3, {{kLuma, {1, 1, 0}, {1, 1, 0}}}},
    {PixelFormat::y444,      "Y444",      {"yuv444p"},                                     kU8,  0, 3, {{kLuma, kLuma, kLuma}}},
    {PixelFormat::nv12,      "NV12",      {},                                              kU8,  0, 2, {{kLuma, {2, 1, 1}}}},
    {PixelFormat::nv21,      "NV21",      {},                                              kU8,  0, 2, {{kLuma, {2, 1, 1}}}},
    {PixelFormat::nv16,      "NV16",      {},                                              kU8,  0, 2, {{kLuma, {2, 1, 0}}}},
    {PixelFormat::p010_10le, "P010_10LE", {"p010le", "p010"},                              kU16, 0, 2, {{{2, 0, 0}, {4, 1, 1}}}},
    {PixelFormat::yuy2,      "YUY2",      {"yuyv422", "yuyv", "yuv422_yuy2"},              kU8,  2, 1, {{{4, 1, 0}}}},
    {PixelFormat::uyvy,      "UYVY",      {"uyvy422", "yuv422"},                           kU8,  2, 1, {{{4, 1, 0}}}},
});
// clang-format on

// Rows stand at their enum's value, so that find() is an index.
template <class Row, class Key>
constexpr bool in_order(const Row& rows, Key key) {
  std::size_t value = 1;
  return std::all_of(rows.begin(), rows.end(), [&](const auto& row) {
    return static_cast<std::size_t>(row.*key) == value++;
  });
}
static_assert(in_order(kDTypes, &DTypeRow::dtype));
static_assert(in_order(kPixels, &PixelRow::pixel_format));

}  // namespace

std::span<const DTypeRow> dtype_table() noexcept { return kDTypes; }

std::span<const PixelRow> pixel_table() noexcept { return kPixels; }

const DTypeRow* find(DType dtype) noexcept {
  const auto value = static_cast<std::size_t>(dtype);
  return value >= 1 && value <= kDTypes.size() ? &kDTypes[value - 1] : nullptr;
}

const PixelRow* find(PixelFormat pixel_format) noexcept {
  const auto value = static_cast<std::size_t>(pixel_format);
  return value >= 1 && value <= kPixels.size() ? &kPixels[value - 1] : nullptr;
}

}  // namespace vramlink::base
