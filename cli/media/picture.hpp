// media: frames as pictures for people: 8-bit RGB, first row on top.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <vramlink/format.hpp>
#include <vramlink/result.hpp>

namespace vramlink::cli::media {

struct Picture {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t channels = 3;  ///< 3: RGB, 4: RGBA
  std::vector<std::uint8_t> pixels;
};

/// Red and blue weights of a matrix of Y'CbCr.
struct LumaWeights {
  double red = 0;
  double blue = 0;
};

/// The matrix of the format; unknown: BT.601 below 720 rows, BT.709 from 720 on.
[[nodiscard]] LumaWeights luma_weights(const Format& format) noexcept;

/// Formats with alpha give RGBA, all others RGB. Chroma is repeated, not interpolated. Unknown
/// range: limited for Y'CbCr, full for gray. Wide and float samples are cut to 0..1 and rounded to
/// 8 bits. Codes: invalid_argument (a tensor), unsupported (larger than a PNG can be).
[[nodiscard]] Result<Picture> to_picture(const Format& format, std::span<const std::byte> bytes);

}  // namespace vramlink::cli::media
