// media: a moving picture of which every byte follows from the frame's number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <vramlink/format.hpp>
#include <vramlink/result.hpp>

#include "media/frame_io.hpp"

namespace vramlink::cli::media {

/// Colour bars moving right, a gray ramp moving left, and the frame number in large digits. The
/// first 8 bytes hold the number too, little-endian. Rows are copied from strips made once, so that
/// drawing costs about a memcpy and checking about a memcmp of the frame. Thread-safety: one thread
/// at a time.
class TestCard {
 public:
  static constexpr std::uint64_t kWidthMin = 8;
  static constexpr std::uint64_t kHeightMin = 8;

  /// Formats of 8 bits: packed RGB of any order, GRAY8, I420, YV12, Y42B, Y444, NV12, NV21.
  /// Codes: invalid_argument (another format, or smaller than 8x8).
  [[nodiscard]] static Result<TestCard> make(const Format& format);

  void draw(std::uint64_t number, std::span<std::byte> frame);
  /// True if every sample is that of frame `number`.
  [[nodiscard]] bool matches(std::uint64_t number, std::span<const std::byte> frame);
  /// What the first bytes say.
  [[nodiscard]] static std::uint64_t number_of(std::span<const std::byte> frame) noexcept;

  [[nodiscard]] const Format& format() const noexcept { return format_; }

 private:
  using Color = std::array<std::uint8_t, 3>;
  // How the samples of a plane follow from red, green and blue.
  struct PlaneStrips {
    unsigned width_shift = 0;
    unsigned height_shift = 0;
    std::size_t sample_bytes = 1;
    std::vector<std::byte> bars;                   // two widths
    std::vector<std::byte> ramp;                   // two widths
    std::vector<std::byte> black;                  // one width
    std::array<std::vector<std::byte>, 7> digits;  // one width; rows of the font for digits_number_
    std::vector<std::byte> white_sample;
  };

  explicit TestCard(const Format& format) : format_(format) {}

  [[nodiscard]] std::vector<std::byte> sample(std::size_t plane, Color color) const;
  void make_strips();
  void compose_digits(std::uint64_t number);
  // The bytes that row `row` of plane `plane` has in frame `number`.
  [[nodiscard]] const std::byte* row_bytes(std::size_t plane, std::uint64_t row,
                                           std::uint64_t number) const noexcept;

  Format format_;
  std::vector<PlaneStrips> planes_;
  std::uint64_t ramp_begin_ = 0;    // first luma row
  std::uint64_t number_begin_ = 0;  // first luma row of the black band
  std::uint64_t digits_begin_ = 0;  // first luma row of the digits
  std::uint64_t scale_ = 0;         // luma pixels of a dot of the font; 0: no room
  std::optional<std::uint64_t> digits_number_;
};

/// Test cards without end, numbered from 1.
[[nodiscard]] std::unique_ptr<FrameSource> make_test_card_source(TestCard card);

}  // namespace vramlink::cli::media
