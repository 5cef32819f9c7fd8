// media: the header of NPY files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <vramlink/format.hpp>
#include <vramlink/result.hpp>

namespace vramlink::cli::media {

inline constexpr std::string_view kNpyMagic{"\x93NUMPY", 6};
inline constexpr std::size_t kNpyHeaderBytesMax = 65536;

/// An NPY array: C order, little-endian elements.
struct NpyArray {
  std::optional<DType>
      dtype;  ///< none: raw bytes of element_bytes (numpy's 'V'), named by the user
  std::uint64_t element_bytes = 0;
  std::vector<std::uint64_t> shape;
};

/// Reads the dictionary that follows the magic and the length.
/// Codes: corrupt, unsupported (Fortran order, big-endian, records; with what to do).
[[nodiscard]] Result<NpyArray> parse_npy_dictionary(std::string_view text, const std::string& file);

/// Magic, length and dictionary, byte for byte as numpy writes them; the size does not depend on
/// the first number of `shape`. `descr` is numpy's name of the elements ("<f4").
[[nodiscard]] std::string make_npy_header(std::string_view descr,
                                          std::span<const std::uint64_t> shape);

/// numpy's name; for types that numpy itself lacks its raw bytes ("|V2" for bfloat16). Static text.
[[nodiscard]] std::string_view npy_descr(DType dtype) noexcept;

}  // namespace vramlink::cli::media
