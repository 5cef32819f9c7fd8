// media: drawing and checking of the test card.
#include "media/test_card.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "media/picture.hpp"

namespace vramlink::cli::media {
namespace {

constexpr std::size_t kNumberBytes = 8;
constexpr std::uint64_t kPixelsPerFrame = 4;  // even, so that chroma moves in whole samples
constexpr std::size_t kDigitCount = 8;
constexpr std::uint64_t kDigitWidth = 5;
constexpr std::uint64_t kDigitPitch = 6;
constexpr std::uint64_t kDigitHeight = 7;

// Rows of five dots; the leftmost is bit 4.
constexpr std::array<std::array<std::uint8_t, kDigitHeight>, 10> kFont{{
    {0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110},
    {0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110},
    {0b01110, 0b10001, 0b00001, 0b00110, 0b01000, 0b10000, 0b11111},
    {0b01110, 0b10001, 0b00001, 0b00110, 0b00001, 0b10001, 0b01110},
    {0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010},
    {0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110},
    {0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110},
    {0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000},
    {0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110},
    {0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100},
}};

constexpr std::array<std::array<std::uint8_t, 3>, 8> kBars{{
    {235, 235, 235},
    {235, 235, 16},
    {16, 235, 235},
    {16, 235, 16},
    {235, 16, 235},
    {235, 16, 16},
    {16, 16, 235},
    {16, 16, 16},
}};

// What the bytes of a sample are.
enum class Component : std::uint8_t {
  red,
  green,
  blue,
  one,
  luma_full,
  luma,
  chroma_blue,
  chroma_red
};

struct PlaneShape {
  unsigned width_shift;
  unsigned height_shift;
  std::vector<Component> components;
};

std::vector<PlaneShape> yuv_planes(PixelFormat pixel_format) {
  using enum Component;
  switch (pixel_format) {
    case PixelFormat::i420:
      return {{0, 0, {luma}}, {1, 1, {chroma_blue}}, {1, 1, {chroma_red}}};
    case PixelFormat::yv12:
      return {{0, 0, {luma}}, {1, 1, {chroma_red}}, {1, 1, {chroma_blue}}};
    case PixelFormat::y42b:
      return {{0, 0, {luma}}, {1, 0, {chroma_blue}}, {1, 0, {chroma_red}}};
    case PixelFormat::y444:
      return {{0, 0, {luma}}, {0, 0, {chroma_blue}}, {0, 0, {chroma_red}}};
    case PixelFormat::nv12:
      return {{0, 0, {luma}}, {1, 1, {chroma_blue, chroma_red}}};
    case PixelFormat::nv21:
      return {{0, 0, {luma}}, {1, 1, {chroma_red, chroma_blue}}};
    default:
      return {};
  }
}

std::vector<PlaneShape> shapes_of(PixelFormat pixel_format) {
  using enum Component;
  switch (pixel_format) {
    case PixelFormat::gray8:
      return {{0, 0, {luma_full}}};
    case PixelFormat::rgb:
      return {{0, 0, {red, green, blue}}};
    case PixelFormat::bgr:
      return {{0, 0, {blue, green, red}}};
    case PixelFormat::rgba:
    case PixelFormat::rgbx:
      return {{0, 0, {red, green, blue, one}}};
    case PixelFormat::bgra:
    case PixelFormat::bgrx:
      return {{0, 0, {blue, green, red, one}}};
    case PixelFormat::argb:
      return {{0, 0, {one, red, green, blue}}};
    case PixelFormat::abgr:
      return {{0, 0, {one, blue, green, red}}};
    default:
      return yuv_planes(pixel_format);
  }
}

std::byte rounded(double value) {
  return static_cast<std::byte>(static_cast<std::uint8_t>(std::clamp(value + 0.5, 0.0, 255.0)));
}

std::byte component_of(Component component, const std::array<std::uint8_t, 3>& color,
                       const Format& format) {
  const LumaWeights weights = luma_weights(format);
  const double luma = weights.red * color[0] + weights.blue * color[2] +
                      (1 - weights.red - weights.blue) * color[1];
  switch (component) {
    case Component::red:
      return std::byte{color[0]};
    case Component::green:
      return std::byte{color[1]};
    case Component::blue:
      return std::byte{color[2]};
    case Component::one:
      return std::byte{255};
    case Component::luma_full:
      return rounded(luma);
    case Component::luma:
      return rounded(16 + luma * 219 / 255);
    case Component::chroma_blue:
      return rounded(128 + (color[2] - luma) / (2 * (1 - weights.blue)) * 224 / 255);
    case Component::chroma_red:
      break;
  }
  return rounded(128 + (color[0] - luma) / (2 * (1 - weights.red)) * 224 / 255);
}

// Repeats one sample or another along a row: sample(x) names it.
template <class SampleAt>
std::vector<std::byte> strip(std::size_t sample_count, SampleAt sample_at) {
  std::vector<std::byte> bytes;
  for (std::size_t x = 0; x < sample_count; ++x) {
    const std::vector<std::byte>& one = sample_at(x);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

class TestCardSource final : public FrameSource {
 public:
  explicit TestCardSource(TestCard card) : card_(std::move(card)) {}

  [[nodiscard]] const Format& format() const noexcept override { return card_.format(); }
  [[nodiscard]] Result<bool> next() override {
    ++number_;
    return true;
  }
  [[nodiscard]] Result<void> read(std::span<std::byte> target) override {
    card_.draw(number_, target);
    return {};
  }
  [[nodiscard]] Result<void> rewind() override {
    number_ = 0;
    return {};
  }

 private:
  TestCard card_;
  std::uint64_t number_ = 0;
};

}  // namespace

Result<TestCard> TestCard::make(const Format& format) {
  const auto refused = [&format](const char* reason, const char* remedy) {
    return Error(Code::invalid_argument, "make test card")
        .about(to_string(format))
        .because(reason)
        .remedy(remedy);
  };
  if (shapes_of(format.pixel_format).empty()) {
    return refused("it is drawn in 8-bit formats only", "--format RGBA or --format I420");
  }
  if (format.width < kWidthMin || format.height < kHeightMin) {
    return refused("it needs 8x8 pixels", "a larger --size");
  }
  TestCard card(format);
  card.make_strips();
  return card;
}

std::vector<std::byte> TestCard::sample(std::size_t plane, Color color) const {
  const auto shape = shapes_of(format_.pixel_format)[plane];
  std::vector<std::byte> bytes;
  for (const Component each : shape.components) {
    bytes.push_back(component_of(each, color, format_));
  }
  return bytes;
}

void TestCard::make_strips() {
  const std::uint64_t width = format_.width;
  ramp_begin_ = format_.height * 55 / 100;
  number_begin_ = format_.height * 70 / 100;
  const std::uint64_t band = format_.height - number_begin_;
  scale_ = std::min(width / (kDigitPitch * kDigitCount + 4), band / (kDigitHeight + 2));
  digits_begin_ = number_begin_ + (band - kDigitHeight * scale_) / 2;

  const auto shapes = shapes_of(format_.pixel_format);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    PlaneStrips plane;
    plane.width_shift = shapes[i].width_shift;
    plane.height_shift = shapes[i].height_shift;
    plane.sample_bytes = shapes[i].components.size();
    std::vector<std::vector<std::byte>> bars;
    for (const Color& color : kBars) bars.push_back(sample(i, color));
    std::vector<std::vector<std::byte>> grays;
    for (unsigned value = 0; value < 256; ++value) {
      const auto gray = static_cast<std::uint8_t>(value);
      grays.push_back(sample(i, {gray, gray, gray}));
    }
    const std::size_t count = format_.planes[i].row_bytes / plane.sample_bytes;
    const unsigned shift = plane.width_shift;
    plane.bars = strip(2 * count + 1, [&](std::size_t x) -> const std::vector<std::byte>& {
      return bars[((x << shift) % width) * bars.size() / width];
    });
    plane.ramp = strip(2 * count + 1, [&](std::size_t x) -> const std::vector<std::byte>& {
      return grays[((x << shift) % width) * grays.size() / width];
    });
    plane.black =
        strip(count, [&](std::size_t) -> const std::vector<std::byte>& { return grays[0]; });
    plane.white_sample = grays[255];
    planes_.push_back(std::move(plane));
  }
}

void TestCard::compose_digits(std::uint64_t number) {
  if (digits_number_ == number) return;
  digits_number_ = number;
  std::string text = std::to_string(number);
  text.insert(0, kDigitCount - std::min(kDigitCount, text.size()), '0');
  text.erase(0, text.size() - kDigitCount);
  const std::uint64_t left = (format_.width - kDigitPitch * kDigitCount * scale_) / 2;
  for (PlaneStrips& plane : planes_) {
    for (std::size_t line = 0; line < kDigitHeight; ++line) {
      std::vector<std::byte>& row = plane.digits[line];
      row = plane.black;
      for (std::uint64_t x = left; x < left + kDigitPitch * kDigitCount * scale_; ++x) {
        const std::uint64_t dot = (x - left) / scale_;
        const std::uint64_t column = dot % kDigitPitch;
        const unsigned bits = kFont[static_cast<std::size_t>(text[dot / kDigitPitch] - '0')][line];
        const bool first = (x & ((std::uint64_t{1} << plane.width_shift) - 1)) == 0;
        if (!first || column >= kDigitWidth || (bits >> (kDigitWidth - 1 - column) & 1) == 0)
          continue;
        std::memcpy(row.data() + (x >> plane.width_shift) * plane.sample_bytes,
                    plane.white_sample.data(), plane.sample_bytes);
      }
    }
  }
}

const std::byte* TestCard::row_bytes(std::size_t plane, std::uint64_t row,
                                     std::uint64_t number) const noexcept {
  const PlaneStrips& strips = planes_[plane];
  const std::uint64_t y = row << strips.height_shift;
  const std::uint64_t moved = number % (format_.width / 2) * kPixelsPerFrame % format_.width;
  const std::uint64_t sample = (moved >> strips.width_shift) * strips.sample_bytes;
  const std::uint64_t width = format_.planes[plane].row_bytes;
  if (y < ramp_begin_) return strips.bars.data() + (width - std::min(sample, width));
  if (y < number_begin_) return strips.ramp.data() + sample;
  if (scale_ == 0 || y < digits_begin_ || y >= digits_begin_ + kDigitHeight * scale_) {
    return strips.black.data();
  }
  return strips.digits[(y - digits_begin_) / scale_].data();
}

void TestCard::draw(std::uint64_t number, std::span<std::byte> frame) {
  if (scale_ > 0) compose_digits(number);
  for (std::size_t i = 0; i < planes_.size(); ++i) {
    const Plane& plane = format_.planes[i];
    for (std::uint64_t row = 0; row < plane.row_count; ++row) {
      std::memcpy(frame.data() + plane.offset_bytes + row * plane.row_pitch_bytes,
                  row_bytes(i, row, number), plane.row_bytes);
    }
  }
  for (std::size_t i = 0; i < kNumberBytes; ++i) {
    frame[i] = static_cast<std::byte>(number >> (8 * i) & 0xff);
  }
}

bool TestCard::matches(std::uint64_t number, std::span<const std::byte> frame) {
  if (frame.size() != format_.payload_bytes || number_of(frame) != number) return false;
  if (scale_ > 0) compose_digits(number);
  for (std::size_t i = 0; i < planes_.size(); ++i) {
    const Plane& plane = format_.planes[i];
    for (std::uint64_t row = 0; row < plane.row_count; ++row) {
      const std::size_t skipped = i == 0 && row == 0 ? kNumberBytes : 0;
      const std::byte* actual = frame.data() + plane.offset_bytes + row * plane.row_pitch_bytes;
      const std::byte* expected = row_bytes(i, row, number);
      if (std::memcmp(actual + skipped, expected + skipped, plane.row_bytes - skipped) != 0) {
        return false;
      }
    }
  }
  return true;
}

std::uint64_t TestCard::number_of(std::span<const std::byte> frame) noexcept {
  std::uint64_t number = 0;
  for (std::size_t i = std::min(kNumberBytes, frame.size()); i-- > 0;) {
    number = number << 8 | std::to_integer<std::uint64_t>(frame[i]);
  }
  return number;
}

std::unique_ptr<FrameSource> make_test_card_source(TestCard card) {
  return std::make_unique<TestCardSource>(std::move(card));
}

}  // namespace vramlink::cli::media
