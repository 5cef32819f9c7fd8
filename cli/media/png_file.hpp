// media: PNG files, one picture each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "media/frame_io.hpp"
#include "media/picture.hpp"

namespace vramlink::cli::media {

inline constexpr std::string_view kPngMagic{"\x89PNG\r\n\x1a\n", 8};

/// True for names such as frame%04d.png that are no files themselves.
[[nodiscard]] bool is_png_pattern(const std::string& path);
/// The name of picture `number` under a pattern.
[[nodiscard]] std::string expand_png_pattern(const std::string& pattern, std::uint64_t number);

/// Pictures of one size and kind, as GRAY8, GRAY16_LE, RGB, RGBA or RGBA64_LE; a pattern counts
/// from the first of 0 and 1 that exists to the last before a gap. Codes: invalid_argument (no
/// file, pictures that differ), corrupt, os.
[[nodiscard]] Result<std::unique_ptr<FrameSource>> open_png_sequence(
    const std::vector<std::string>& paths);

/// "-": standard output. Codes: permission_denied, os.
[[nodiscard]] Result<void> write_png(const std::string& path, const Picture& picture);

}  // namespace vramlink::cli::media
