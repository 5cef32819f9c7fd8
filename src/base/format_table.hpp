// The one list of element types and picture layouts; everything that names, parses, lays out or
// checks a format reads it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include <vramlink/format.hpp>

namespace vramlink::base {

struct DTypeRow {
  DType dtype;
  std::uint32_t bits;
  std::string_view name;
  std::array<std::string_view, 7> aliases;  ///< numpy's typestr, torch's and C's names
};

/// A plane is rows of groups: `group_bytes` for each 2^width_shift columns and 2^height_shift rows
/// of the picture, rounded up.
struct PlaneRule {
  std::uint8_t group_bytes;
  std::uint8_t width_shift;
  std::uint8_t height_shift;
};

struct PixelRow {
  PixelFormat pixel_format;
  std::string_view name;                    ///< GStreamer's
  std::array<std::string_view, 5> aliases;  ///< ROS, FFmpeg, TouchDesigner; lower case
  DType dtype;                              ///< of one sample
  std::uint8_t channel_count;               ///< of one-plane layouts; 0: more planes
  std::uint8_t plane_count;
  std::array<PlaneRule, 3> planes;  ///< in the order of memory: YV12 is Y, V, U
};

[[nodiscard]] std::span<const DTypeRow> dtype_table() noexcept;
/// Without PixelFormat::none.
[[nodiscard]] std::span<const PixelRow> pixel_table() noexcept;

/// Null for values that are not in the table.
[[nodiscard]] const DTypeRow* find(DType dtype) noexcept;
[[nodiscard]] const PixelRow* find(PixelFormat pixel_format) noexcept;

}  // namespace vramlink::base
