// media: the header line of Y4M (YUV4MPEG2), as text and as a Format.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <vramlink/format.hpp>
#include <vramlink/result.hpp>

namespace vramlink::cli::media {

inline constexpr std::string_view kY4mMagic = "YUV4MPEG2";
inline constexpr std::string_view kY4mFrame = "FRAME";

/// Reads a header line without its newline: 8-bit 420 (every siting), 422, 444 and mono,
/// progressive. Codes: corrupt (not a header), unsupported (a kind that channels do not carry, with
/// what to do).
[[nodiscard]] Result<Format> parse_y4m_header(std::string_view line, const std::string& file);

/// The header of a format that no Y4M file came with. Codes: invalid_argument (Y4M cannot hold it).
[[nodiscard]] Result<std::string> make_y4m_header(const Format& format);

/// What travels beside a frame: the header line and, after a newline, the parameters of the FRAME
/// line if it has any.
struct Y4mNote {
  std::string header;
  std::string frame_parameters;  ///< with the blank before them, or empty

  /// At most 256 bytes: X parameters (comments) that do not fit are left out, last ones first, then
  /// the frame parameters. Sets `shortened` if anything was left out. Empty if nothing fits.
  [[nodiscard]] std::string pack(bool& shortened) const;
  /// The note in user data that some publisher wrote, if it is one and its header describes
  /// `format`. The rate of the header becomes that of the format.
  [[nodiscard]] static std::optional<Y4mNote> unpack(std::span<const std::byte> user_data,
                                                     const Format& format);
};

}  // namespace vramlink::cli::media
